/**
 * The three kinds of URL that the service calls (of webhooks, token servers and files), with everything that could lead
 * them to a private network: addresses in every notation, names that resolve to them, names that change, redirects. The
 * test has its own resolver. Real servers listen on the loopback addresses, and must get no connection.
 */
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { eventually } from '../harness/eventually.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { createRequest, endedJob } from '../harness/sourcing.ts';
import { testCertificates } from '../harness/test-certificates.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { startTokenServer } from '../harness/token-server.ts';
import { startWebhookReceiver } from '../harness/webhook-receiver.ts';

/** The addresses that each name resolves to now; no other name exists. */
const names = new Map<string, string[]>();
const asNamed = (name: string) => names.get(name);
let resolve = asNamed;
const outgoing = createGuardedFetch({
  extraCa: testCertificates().caPem,
  lookup: async (hostname) => {
    const found = resolve(hostname);
    if (!found) throw Object.assign(new Error('unknown'), { code: 'ENOTFOUND' });
    return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  },
});
closeAtEnd(() => outgoing.close());
const service = await startTestService({ clock: createManualClock(), fetch: outgoing.fetch });

/** The connections to the loopback addresses. */
let connections = 0;
async function listenOn(host: string, port: number): Promise<number> {
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  closeAtEnd(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as { port: number }).port;
}
const port = await listenOn('127.0.0.1', 0);
// A machine without IPv6 has no such address.
await listenOn('::1', port).catch(() => undefined);

interface Caller extends TestOrganisation {
  readonly request: string;
  readonly allow: (cidrs: readonly string[]) => Promise<unknown>;
}

async function callerWith(domains: readonly string[]): Promise<Caller> {
  const organisation = await service.organisation();
  const admin = `/admin/organisations/${organisation.id}`;
  expect((await service.operator('PUT', `${admin}/webhook-domains`, { domains })).status).toBe(200);
  const allow = (cidrs: readonly string[]) => service.operator('PUT', `${admin}/allowed-networks`, { cidrs });
  await allow([]);
  return { ...organisation, request: await createRequest(organisation), allow };
}

/** `refused`: the URL was not accepted. `blocked`: it was, but no connection was made. Else the result of the call. */
type Outcome = string;

const kinds: Readonly<Record<'webhook' | 'token' | 'file', (caller: Caller, url: string) => Promise<Outcome>>> = {
  webhook: async (caller, url) => {
    const made = await caller.call('POST', '/api/webhooks', { name: 'w', url, triggers: ['TEST'] });
    if (made.status !== 201) return refusalOf(made);
    await caller.call('POST', `/api/webhooks/${made.body.uuid}/test`);
    const path = `/admin/organisations/${caller.id}/deliveries?webhook=${made.body.uuid}`;
    const attempt = await eventually('it was attempted', async () => {
      const [found] = (await service.operator('GET', path)).body.result;
      return found?.attempts[0];
    });
    if (attempt.status === null) return / was refused: /.test(attempt.error) ? 'blocked' : attempt.error;
    return `answered ${attempt.status}`;
  },
  token: async (caller, url) => {
    const answer = await caller.call('POST', '/api/webhooks', {
      name: 'w',
      url: 'https://hooks.example/',
      triggers: ['TEST'],
      authentication: {
        type: 'OAUTH_CLIENT_CREDENTIALS',
        parameters: { access_token_url: url, client_id: 'id', client_secret: 'secret' },
      },
    });
    if (answer.status === 201) return 'answered 200';
    expect(answer.body.errors[0].path).toBe('authentication.parameters.access_token_url');
    const { message } = answer.body.errors[0];
    if (/is not allowed/.test(message)) return 'blocked';
    return /answered \d+/.exec(message)?.[0] ?? refusalOf(answer);
  },
  file: async (caller, url) => {
    const path = '/api/jobs/attach-files-to-sourcing-request';
    const payload = { sourcing_request: caller.request, files: [{ file_name: 'x', url }] };
    const submitted = await caller.call('POST', path, payload);
    if (submitted.status !== 202) return refusalOf(submitted);
    const { detail } = await endedJob(caller, path, payload);
    const outcome = detail.errors[0]?.error ?? 'answered 200';
    return outcome === 'unreachable' ? 'blocked' : outcome;
  },
};

function refusalOf({ status, body }: { status: number; body: { errors?: { path: string }[] } }): Outcome {
  expect(status).toBe(400);
  expect(body.errors?.[0]?.path).toMatch(/url$/);
  return 'refused';
}

const everyKind = Object.keys(kinds) as (keyof typeof kinds)[];

/** The outcome of the URL for each kind. Its host is whitelisted for webhooks. */
async function outcomesOf(url: string): Promise<Record<string, Outcome>> {
  const host = URL.parse(url)?.hostname;
  const caller = await callerWith(['hooks.example', ...(host ? [host] : [])]);
  const outcomes: Record<string, Outcome> = {};
  for (const kind of everyKind) outcomes[kind] = await kinds[kind](caller, url);
  return outcomes;
}

const all = (outcome: Outcome) => Object.fromEntries(everyKind.map((kind) => [kind, outcome]));

/** Each notation; test/platform/network-guard.test.ts has every range. */
const privateHosts: readonly (readonly [notation: string, host: string])[] = [
  ['plain', '127.0.0.1'],
  ['short', '127.1'],
  ['decimal', '2130706433'],
  ['hexadecimal', '0x7f000001'],
  ['hexadecimal in parts', '0x7f.0x0.0x0.0x1'],
  ['octal', '017700000001'],
  ['octal in parts', '0177.0.0.01'],
  ['mixed', '0x7f.1'],
  ['with leading zeros', '127.000.000.001'],
  ['with a dot at the end', '127.0.0.1.'],
  ['full width', '１２７.０.０.１'],
  ['circled', '①②⑦.⓪.⓪.①'],
  ['ideographic dots', '127。0。0。1'],
  ['half-width dots', '127｡0｡0｡1'],
  ['percent-encoded', '%31%32%37.0.0.1'],
  ['with a soft hyphen', '127.0.0.\u00ad1'],
  ['with a tab', '127.0.\t0.1'],
  ['nothing', '0'],
  ['unspecified', '0.0.0.0'],
  ['metadata', '169.254.169.254'],
  ['metadata, decimal', '2852039166'],
  ['metadata, hexadecimal', '0xa9fea9fe'],
  ['IPv6 loopback', '[::1]'],
  ['IPv6 loopback at length', '[0000:0000:0000:0000:0000:0000:0000:0001]'],
  ['IPv4-mapped', '[::ffff:127.0.0.1]'],
  ['IPv4-mapped in groups', '[::ffff:7f00:1]'],
  ['IPv4-compatible', '[::127.0.0.1]'],
  ['IPv4-translated', '[::ffff:0:7f00:1]'],
  ['NAT64', '[64:ff9b::7f00:1]'],
  ['6to4', '[2002:7f00:1::]'],
  ['IPv6 unique local', '[fd00::1]'],
  ['IPv6 metadata', '[fd00:ec2::254]'],
];

test.each(privateHosts)('no connection is made to a private address: %s (%s)', async (_notation, host) => {
  expect(await outcomesOf(`https://${host}:${port}/inside`)).toEqual(all('blocked'));
  expect(connections).toBe(0);
});

test.each([
  ['a zone', 'https://[fe80::1%25eth0]/'],
  ['a zone that is not encoded', 'https://[fe80::1%eth0]/'],
  ['a user name', 'https://hooks.example@127.0.0.1/'],
  ['a user name and a password', 'https://hooks.example:443@127.0.0.1/'],
  ['a user name that looks like the host', 'https://hooks.example%2f@127.0.0.1/'],
  ['a part too large', 'https://256.0.0.1/'],
  ['a number too large', 'https://4294967296/'],
  ['five parts', 'https://127.0.0.0.1/'],
  ['plain HTTP', 'http://127.0.0.1/'],
  ['another scheme', 'gopher://127.0.0.1/'],
  ['a file', 'file:///etc/passwd'],
  ['data', 'data:text/plain,inside'],
  ['no host', 'https:///'],
  ['a fragment', 'https://hooks.example/#@127.0.0.1/'],
  ['a NUL', 'https://hooks.example%00.127.0.0.1/'],
])('a URL with %s is refused: %s', async (_what, url) => {
  expect(await outcomesOf(url)).toEqual(all('refused'));
  expect(connections).toBe(0);
});

test.each([
  ['with backslashes', 'https:\\\\127.0.0.1\\inside'],
  ['with a port of its own', 'https:127.0.0.1:4430'],
])('a URL that parsers read differently is checked as it is connected to: %s', async (_what, url) => {
  expect(await outcomesOf(url)).toEqual(all('blocked'));
});

test.each([
  ['127.0.0.1'],
  ['169.254.169.254'],
  ['::ffff:127.0.0.1'],
  ['8.8.8.8', '127.0.0.1'],
  ['127.0.0.1', '8.8.8.8'],
  ['2001:4860:4860::8888', '::1'],
])('no connection is made to a name that resolves to %s %s', async (...addresses) => {
  names.set('inside.example', addresses.filter(Boolean));
  for (const host of ['inside.example', 'ⓘnside.example'])
    expect([host, await outcomesOf(`https://${host}:${port}/inside`)]).toEqual([host, all('blocked')]);
  expect(connections).toBe(0);
});

test.each([['localhost'], ['LOCALHOST'], ['ｌocalhost']])('%s is checked as any other name', async (host) => {
  names.set('localhost', ['127.0.0.1', '::1']);
  expect(await outcomesOf(`https://${host}:${port}/inside`)).toEqual(all('blocked'));
  expect(connections).toBe(0);
});

test('a name with alternating addresses is resolved once for each connection, to the checked address', async () => {
  const receiver = await startWebhookReceiver();
  const tokenServer = await startTokenServer();
  const urls = { webhook: receiver.url, token: tokenServer.url, file: tokenServer.url };
  for (const kind of everyKind) {
    const caller = await callerWith(['hooks.example', 'localhost']);
    // Other networks for each kind, so that no kept connection of an earlier one is used.
    await caller.allow(['127.0.0.1/32', `10.${everyKind.indexOf(kind)}.0.0/16`]);
    const answers = [['127.0.0.1'], ['10.9.9.9'], ['127.0.0.1']];
    let lookups = 0;
    resolve = (name) => (name === 'localhost' ? answers[lookups++ % answers.length] : undefined);
    expect([kind, await kinds[kind](caller, urls[kind])]).toEqual([kind, 'answered 200']);
    expect([kind, lookups]).toEqual([kind, 1]);
  }
  resolve = asNamed;
});

test('no redirect is followed', async () => {
  names.set('localhost', ['127.0.0.1']);
  const lure = await startTokenServer();
  const receiver = await startWebhookReceiver();
  const location = `https://127.0.0.1:${port}/inside`;
  const seen: Record<string, Outcome[]> = { webhook: [], token: [], file: [] };
  for (const status of [301, 302, 303, 307, 308]) {
    lure.answer = (response) => response.writeHead(status, { location }).end();
    receiver.answer = (response) => response.writeHead(status, { location }).end();
    const caller = await callerWith(['hooks.example', 'localhost']);
    await caller.allow(['127.0.0.0/8']);
    seen['webhook']?.push(await kinds.webhook(caller, receiver.url));
    seen['token']?.push(await kinds.token(caller, lure.url));
    seen['file']?.push(await kinds.file(caller, lure.url));
  }
  const statuses = ['answered 301', 'answered 302', 'answered 303', 'answered 307', 'answered 308'];
  expect(seen).toEqual({ webhook: statuses, token: statuses, file: Array(5).fill('redirect') });
  expect(connections).toBe(0);
});

/** What the organisation reads of a failed webhook, token request and file, without the host. */
async function shownFor(host: string): Promise<unknown[]> {
  const caller = await callerWith(['hooks.example', host]);
  const url = `https://${host}/inside`;
  const made = await caller.call('POST', '/api/webhooks', { name: 'w', url, triggers: ['TEST'] });
  await caller.call('POST', `/api/webhooks/${made.body.uuid}/test`);
  const attempt = async (path: string) => {
    const found = await eventually(
      'it was attempted',
      async () => (await caller.call('GET', path)).body.result[0]?.attempts[0],
    );
    return found.error;
  };
  const token = await caller.call('POST', '/api/webhooks', {
    name: 'w',
    url: 'https://hooks.example/',
    triggers: ['TEST'],
    authentication: {
      type: 'OAUTH_CLIENT_CREDENTIALS',
      parameters: { access_token_url: url, client_id: 'id', client_secret: 'secret' },
    },
  });
  const path = '/api/jobs/attach-files-to-sourcing-request';
  const payload = { sourcing_request: caller.request, files: [{ file_name: 'x', url }] };
  await caller.call('POST', path, payload);
  const job = await endedJob(caller, path, payload);
  const shown = [
    await attempt(`/api/webhooks/${made.body.uuid}/deliveries`),
    token.status,
    token.body.errors,
    job.detail.errors,
  ];
  return JSON.parse(JSON.stringify(shown).replaceAll(host, '<host>'));
}

test('an organisation cannot tell a name that does not exist from one that leads inside', async () => {
  names.set('inner.example', ['10.0.0.1']);
  const [inside, unknown] = [await shownFor('inner.example'), await shownFor('unknown.example')];
  expect(inside).toEqual(unknown);
  expect(JSON.stringify(inside)).not.toMatch(/10\.0\.0\.1|private|resolved/);
});
