/**
 * The three OpenAPI documents of the service: the public contract, the desk and the operator's commands. Tests check
 * every answer of the service against them.
 */
import { feedOrderHeader } from '#contract/feed.ts';
import { operatorApi, organisationApi } from '../api.ts';
import type { Profile } from '../profile/profile.ts';
import { specProfile } from '../profile/spec-profile.ts';
import type { ApiName } from './api-names.ts';
import { createOpenApiDocument, type DescribedEndpoint } from './create-openapi-document.ts';
import { notifications } from './notifications.ts';
import type { JsonObject } from './schema-set.ts';

/** `serverUrl` is the base of the paths; `/` is the server from which the document was loaded. */
export function createApiDocuments(serverUrl = '/', profile: Profile = specProfile): Record<ApiName, JsonObject> {
  const { organisation, operator } = endpointTables(profile);
  const under = (path: string) => organisation.filter((one) => one.path.startsWith(path));
  return {
    public: createOpenApiDocument({
      title: 'Sourcing Service',
      description: publicDescription(profile),
      tags: {
        Suppliers: 'Suppliers are read directly, and changed by submissions that are applied after the answer.',
        'Sourcing requests': 'What a company needs: created and given files by jobs, read here.',
        Jobs: 'Sourcing events, sourcing requests and files, created and changed by jobs.',
        Feeds: 'What has happened, to be read again and again: events, bids, awards and RFI answers.',
        Webhooks: 'Notifications that are pushed when a feed changes or a job ends.',
      },
      token: 'An API key. Its scopes say what it may do: `manage`, `jobs`, `feeds`, `webhooks`.',
      endpoints: under('/api/'),
      webhooks: (schemas) => notifications(schemas, profile),
      errors: profile.errors,
      profile,
      serverUrl,
    }),
    desk: createOpenApiDocument({
      title: 'Sourcing Service: the desk',
      description: `What buyers and suppliers do on screen, outside the public contract. A command that the event's state does not allow is answered with 409 and the reason. ${conventions}`,
      tags: {
        Events: 'From draft to closed.',
        Rounds: 'Bidding rounds of an event.',
        Bids: 'Invitations, bids, and the values of the buyer.',
        Awards: 'Scenarios, and which of them is awarded.',
        RFI: 'Questions and answers.',
        Files: 'Uploads.',
      },
      token: 'An API key with the scope `desk`.',
      endpoints: under('/desk/'),
      profile,
      serverUrl,
    }),
    admin: createOpenApiDocument({
      title: 'Sourcing Service: operation',
      description: `What the operator of the service does, outside the public contract. ${conventions}`,
      tags: {
        Organisations: 'The users of the service, and their settings.',
        'API keys': 'What callers show.',
        Deliveries: 'What became of notifications.',
      },
      token: "The operator's token (`SOURCING_ADMIN_TOKEN`).",
      endpoints: operator,
      profile,
      serverUrl,
    }),
  };
}

/** The tables of endpoints as they are served, without the dependencies of their handlers: they cannot be called. */
export function endpointTables(
  profile: Profile = specProfile,
): Record<'organisation' | 'operator', readonly DescribedEndpoint[]> {
  return { organisation: organisationApi({ profile } as never), operator: operatorApi({ profile } as never) };
}

const conventions = `Bodies are JSON. Times are ISO 8601 in UTC. An unknown field or parameter is refused. An error is a problem detail (RFC 9457) that says what was wrong and where.`;

const publicDescription = ({
  words,
  feeds,
}: Profile) => `Suppliers, sourcing events, bids and awards: read by feeds, changed by jobs and submissions, announced by webhooks.

**Calls.** Every call carries \`Authorization: Bearer <API key>\`. Bodies are JSON. A path answers alike with and without a trailing slash; a GET may be sent as HEAD; another method at a known path is answered with 405 and \`Allow\`. What belongs to another organisation does not exist: 404.

**Values.** Times are ISO 8601 in UTC: \`2030-12-31T23:59:59Z\`, \`2030-12-31T23:59:59+00:00\` and \`2030-12-31T23:59:59.000000Z\` are taken, the last is answered. Money and quantities are decimals as text. In feed records fields without a value are left out.

**Pages.** A page that another one follows names it in the header \`Link\`: \`<URL>; rel="next"\`.

**Growth.** Answers gain fields over time, and values that are listed here may become more: accept what you do not know. What is sent is checked strictly: an unknown field or parameter is refused with its path. In the body of a job a member that is null counts as left out.

**Errors.** ${words.errors}

**Repetition.** \`Idempotency-Key\` makes every POST safe to repeat. \`ETag\` and \`If-None-Match\` make a poll that finds nothing new cheap.${feeds.declaresOrder ? ` The feeds are in the order of their commits (\`${feedOrderHeader}: commit\`).` : ''}

**Limits.** Counted for each API key in a sliding window; a refused call (429) does not count. ${words.limits} Bodies over 64 KB also have a number of bytes a minute (429). A body or a file that is too large is answered with 413; a file for which the organisation has no room with 507, and \`limit_bytes\`, \`used_bytes\` and \`left_bytes\` say how much there is. Too many wrong tokens from one address are answered with 429, a request that does not come within a minute with 408.`;
