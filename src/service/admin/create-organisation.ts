import { randomUUID } from 'node:crypto';
import { createOrganisationRequest, organisationAnswer } from '#contract/admin.ts';
import { feedNames } from '#contract/feed.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';

/**
 * POST /admin/organisations: creates an organisation with the heads of its feeds. The head of a feed that the service
 * gets later is created by the first append (`feeds/append-feed-records.ts`).
 */
export function createOrganisation({ clock }: { clock: Clock }) {
  return endpoint<Operator, typeof createOrganisationRequest>({
    method: 'POST',
    path: '/admin/organisations',
    scope: 'operator',
    summary: 'Create an organisation',
    answers: { 201: organisationAnswer },
    body: createOrganisationRequest,
    handle: async ({ body, caller: { unit } }) => {
      const id = randomUUID();
      await unit.tx.query('insert into service.organisations (id, name, created) values ($1, $2, $3)', [
        id,
        body.name,
        timestampNow(clock),
      ]);
      await unit.tx.query('insert into service.feed_heads (organisation_id, feed) select $1, unnest($2::text[])', [
        id,
        [...feedNames, 'suppliers'],
      ]);
      return { status: 201, body: { id, name: body.name } };
    },
  });
}
