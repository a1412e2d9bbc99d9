/** The stream of changes over real connections: it ends with its session, and one person leaves room for others. */
import { expect, test } from 'vitest';
import { createLiveStream } from '#console/api/live.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { noStatus } from '../bridge/operate/status/statuses.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { createManualClock } from '../harness/manual-clock.ts';

async function startStreams() {
  const clock = createManualClock();
  const sessions = new Set(['Ada', 'Bert']);
  let changes = 0;
  const live = createLiveStream({
    // Something changes with each look, so that the stream is never quiet.
    status: async () => ({ ...noStatus, backfills: [{ id: (changes += 1) }] as never }),
    clock,
    isCurrent: async (request) => sessions.has(String(request.headers['x-person'])),
  });
  const application = createApplication({ log: silentLogger, registry: new Registry(), readiness: {} });
  application.express.get('/live', (request, response) =>
    live.open(request, response, String(request.headers['x-person'])),
  );
  application.finish();
  const server = await listen(application.express, { host: '127.0.0.1', port: 0 });
  closeAtEnd(async () => {
    live.close();
    await server.close(0);
  });
  const open = (person: string) => fetch(`${server.url}/live`, { headers: { 'x-person': person } });
  return { clock, sessions, open };
}

test('a stream ends within five seconds of its session, whatever changes meanwhile', async () => {
  const { clock, sessions, open } = await startStreams();
  const [ended, other] = [await open('Ada'), await open('Bert')];
  const read = ended.text();
  sessions.delete('Ada');
  for (let second = 0; second < 5; second += 1) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await read).toContain('event: alive');
  expect(other.body?.locked).toBe(false);
  await other.body?.cancel();
});

test('one person with twenty streams leaves the others room', async () => {
  const { open } = await startStreams();
  const own = await Promise.all(Array.from({ length: 20 }, () => open('Ada')));
  expect(own.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
  expect((await open('Ada')).status).toBe(503);
  const other = await open('Bert');
  expect(other.status).toBe(200);
  for (const { body } of [...own, other]) await body?.cancel();
});
