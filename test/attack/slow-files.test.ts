/** Organisations have files fetched from servers that hardly answer. The file jobs of others do not wait for all of them. */
import { expect, test } from 'vitest';
import type { GuardedRequest, GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { eventually } from '../harness/eventually.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { createEvent, eventPayload } from '../harness/sourcing.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';

/** Servers that answer when the test says so. */
function servers() {
  const open: { host: string; answer: () => void }[] = [];
  const asked: string[] = [];
  return {
    /** The hosts that were asked, in this order. */
    asked,
    open: (host?: string) => open.filter((each) => host === undefined || each.host === host),
    answer: (host?: string) => {
      for (const each of open.filter((one) => host === undefined || one.host === host)) each.answer();
    },
    fetch: ({ url, signal }: GuardedRequest) =>
      new Promise<GuardedResponse>((resolve, reject) => {
        const host = new URL(url).hostname;
        const entry = {
          host,
          answer: () => {
            open.splice(open.indexOf(entry), 1);
            resolve({ status: 200, headers: {}, body: Buffer.from('file'), truncated: false });
          },
        };
        asked.push(host);
        open.push(entry);
        signal?.addEventListener('abort', () => reject(signal.reason));
      }),
  };
}

async function start() {
  const remote = servers();
  const clock = createManualClock();
  const service = await startTestService({ fetch: remote.fetch, clock });
  /** Submits jobs that attach a file of this host each. */
  const attach = async (organisation: TestOrganisation, host: string, count: number) => {
    const event = await createEvent(organisation, eventPayload());
    const files = [{ file_name: 'a.txt', url: `https://${host}/a.txt` }];
    for (let at = 0; at < count; at += 1) {
      const body = { sourcing_event: event, files };
      expect((await organisation.call('POST', '/api/jobs/attach-files-to-sourcing-event', body)).status).toBe(202);
    }
  };
  return { remote, clock, service, attach };
}

test('one that has many jobs lets others have a turn after each', async () => {
  const { remote, service, attach } = await start();
  const hosts = ['a.test', 'b.test', 'c.test', 'd.test'];
  for (const host of hosts) await attach(await service.organisation(), host, host === 'a.test' ? 30 : 1);
  await eventually('the slots are taken', async () => remote.open().length === 4);
  await attach(await service.organisation(), 'neighbour.test', 1);
  await eventually('the neighbour has its turn', async () => {
    remote.answer('a.test');
    return remote.asked.includes('neighbour.test');
  });
  expect(remote.asked.filter((host) => host === 'a.test').length).toBeLessThan(30);
  expect(remote.open().map(({ host }) => host)).toEqual(expect.arrayContaining(['b.test', 'c.test', 'd.test']));
  remote.answer();
});

test('those whose last job was slow leave half of the slots to others', async () => {
  const { remote, clock, service, attach } = await start();
  const hosts = Array.from({ length: 4 }, (_, at) => `slow-${at}.test`);
  for (const host of hosts) await attach(await service.organisation(), host, 2);
  await eventually('the slots are taken', async () => remote.open().length === 4);
  clock.advance(5_000);
  remote.answer();
  await eventually('half of the slots are taken', async () => remote.open().length === 2);
  await attach(await service.organisation(), 'neighbour.test', 1);
  await eventually('the neighbour has its turn', async () => remote.asked.includes('neighbour.test'));
  expect(remote.open().filter(({ host }) => host !== 'neighbour.test')).toHaveLength(2);
  remote.answer();
});
