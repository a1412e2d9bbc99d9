/** Somebody guesses tokens. Few of them are checked, it is seen, and callers with a right key notice nothing. */
import { describe, expect, test } from 'vitest';
import { connectionLimitsDefault } from '#platform/http/connections.ts';
import { createLogger } from '#platform/log.ts';
import { plainAddress } from '#service/key-uses.ts';
import { wrongTokensDefault } from '#service/token-guard.ts';
import { eventually } from '../harness/eventually.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { request } from '../harness/request.ts';
import { startTestService } from '../harness/test-service.ts';

async function start(options: Parameters<typeof startTestService>[0] = {}) {
  const lines: { msg: string; level: string; refused?: number }[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const clock = createManualClock();
  const log = createLogger({ level: 'info', name: 'test', destination });
  const service = await startTestService({ clock, log, wrongTokensPerSecond: wrongTokensDefault, ...options });
  return { ...service, clock, lines };
}

type Started = Awaited<ReturnType<typeof start>>;

let guesses = 0;
/** Sends wrong tokens, all at once, and counts the answers by their status. */
async function guess({ url }: Started, path: string, count: number, headers: Record<string, string> = {}) {
  const answers = await Promise.all(
    Array.from({ length: count }, () => request('GET', url + path, { key: `wrong-${(guesses += 1)}`, headers })),
  );
  return Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, list]) => [status, list.length]),
  );
}

const [feed, admin] = ['/api/feeds/awards', '/admin/organisations/x/api-keys'];

describe.each([feed, admin, '/desk/events'])('wrong tokens for %s', (path) => {
  test('are checked 60 times a second, the rest is answered 429 with the time to wait', async () => {
    const service = await start();
    expect(await guess(service, path, 200)).toEqual({ 401: 60, 429: 140 });
    service.clock.advance(999);
    expect(await guess(service, path, 10)).toEqual({ 429: 10 });
    service.clock.advance(1);
    expect(await guess(service, path, 70)).toEqual({ 401: 60, 429: 10 });
    const refused = await request('GET', service.url + path, { key: 'wrong' });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  });
});

test('keys that are right pass amid wrong ones of their own address, also when they are used for the first time', async () => {
  const service = await start();
  const used = await service.organisation();
  const fresh = await service.organisation();
  expect((await used.call('GET', feed)).status).toBe(200);
  const mixed = async () => {
    const wrong = guess(service, feed, 100);
    const right = [used, fresh].map((organisation) => organisation.call('GET', feed));
    const operator = service.operator('GET', `/admin/organisations/${used.id}/api-keys`);
    const answers = await Promise.all([...right, operator]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    return wrong;
  };
  expect(await mixed()).toEqual({ 401: 60, 429: 40 });
  expect(await mixed()).toEqual({ 429: 100 });
});

test('a right key takes none of the 60 checks', async () => {
  const service = await start();
  const organisations = await Promise.all(Array.from({ length: 20 }, () => service.organisation()));
  for (const each of organisations) expect((await each.call('GET', feed)).status).toBe(200);
  expect(await guess(service, feed, 61)).toEqual({ 401: 60, 429: 1 });
});

test('a key that was revoked is refused, also if it was known to be right, and so counts as wrong', async () => {
  const service = await start();
  const organisation = await service.organisation();
  await organisation.call('GET', feed);
  const keys = `/admin/organisations/${organisation.id}/api-keys`;
  const [key] = (await service.operator('GET', keys)).body.result;
  await service.operator('DELETE', `${keys}/${key.id}`);
  expect((await organisation.call('GET', feed)).status).toBe(401);
  expect(await guess(service, feed, 60)).toEqual({ 401: 59, 429: 1 });
});

test('a burst is one line of the log, which says how many were refused and from where, and a figure', async () => {
  const service = await start();
  await guess(service, feed, 150);
  await guess(service, admin, 50);
  const warnings = () => service.lines.filter(({ level }) => level === 'warn');
  await eventually('the burst is over', async () => {
    service.clock.advance(2_000);
    return warnings().length > 0;
  });
  expect(warnings()).toEqual([
    expect.objectContaining({
      msg: 'wrong tokens were refused: 200, from 127.0.0.1 (200)',
      refused: 200,
      addresses: { '127.0.0.1': 200 },
    }),
  ]);
  const metrics = await service.registry.metrics();
  expect(metrics).toContain('service_tokens_refused_total{by="api-key",answer="unauthorized"} 60');
  expect(metrics).toContain('service_tokens_refused_total{by="api-key",answer="too_many"} 90');
  expect(metrics).toContain('service_tokens_refused_total{by="operator",answer="too_many"} 50');
});

test('addresses that a trusted proxy names are counted each for itself; nobody else is believed', async () => {
  const trusting = await start({
    connections: { ...connectionLimitsDefault, isTrustedProxy: (address) => plainAddress(address) === '127.0.0.1' },
  });
  const from = (address: string) => ({ 'x-forwarded-for': address });
  expect(await guess(trusting, feed, 61, from('192.0.2.1'))).toEqual({ 401: 60, 429: 1 });
  expect(await guess(trusting, feed, 1, from('192.0.2.2'))).toEqual({ 401: 1 });
  // What the client itself wrote stands before what the proxy has added.
  expect(await guess(trusting, feed, 1, from('192.0.2.3, 192.0.2.1'))).toEqual({ 429: 1 });
  // All addresses of one IPv6 network count together.
  expect(await guess(trusting, feed, 60, from('2001:db8::1'))).toEqual({ 401: 60 });
  expect(await guess(trusting, feed, 1, from('2001:db8::ffff'))).toEqual({ 429: 1 });
  const plain = await start();
  expect(await guess(plain, feed, 60, from('192.0.2.1'))).toEqual({ 401: 60 });
  expect(await guess(plain, feed, 1, from('192.0.2.2'))).toEqual({ 429: 1 });
});
