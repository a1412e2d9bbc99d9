/** After a restore: what the lost bridge has delivered since the backup, and what no record names any more. */
import { beforeEach, expect, test } from 'vitest';
import { resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { catchUp } from '#bridge/ledger/lost-commits/catch-up.ts';
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { eventRecord } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, keyOf, type Pusher, supplier } from '../../push/pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
const push = async () => {
  for (let turn = 0; turn < 3; turn += 1) {
    await (await pusher.worker(erp)).push();
    pusher.clock.advance(1_000);
  }
};
const living = () =>
  erp
    .living()
    .map(({ key, total }): [string, string] => [key, total])
    .toSorted(([a], [b]) => (a < b ? -1 : 1));

/** The lost bridge has delivered awards to 1 and 2; the backup knows neither the event nor them. */
async function loseAndRestore(settings: Parameters<typeof createPusher>[1] = {}) {
  pusher = await createPusher(5, settings);
  erp = createFakeErp();
  await pusher.award([1, '10'], [2, '20']);
  await push();
  expect(living()).toEqual([
    [keyOf(1), '10'],
    [keyOf(2), '20'],
  ]);
  const { database } = pusher.db;
  for (const table of ['mirror', 'mirror_history', 'record_references', 'flow_documents', 'document_versions'])
    await database.query(`delete from bridge.${table}`);
  const now = timestampNow(pusher.clock);
  await noteLostCommits(database, { lost: now, why: 'restored', since: null });
  pusher.clock.advance(60_000);
  erp.calls.length = 0;
}

/** The source was read again. */
async function letGo() {
  const source = { name: 'main', feeds: [], suppliers: false } as unknown as SourceSettings;
  const flows = [{ flow: pusher.flow, callLimitMs: 0 }];
  const { looking } = await catchUp(pusher.db.database, { sources: [source] }, flows, timestampNow(pusher.clock));
  expect(looking).toEqual(['erp']);
}

const people = [0, 1, 2, 3, 4].map(supplier);
const rows = async () =>
  (
    await pusher.db.database.query<{ key: string; held: boolean }>(
      'select key, delivered_hash is not null as held from bridge.flow_documents order by key',
    )
  ).map(({ key, held }) => [key, held]);

beforeEach(() => loseAndRestore());

test('an award of an event that was deleted since is withdrawn, and what was never delivered is forgotten', async () => {
  await pusher.store('sourcing-events', { ...eventRecord(event, people), status: 'DELETED' });
  await letGo();
  await push();
  expect([living(), erp.calls.filter((call) => call.startsWith('write'))]).toEqual([[], ['write cancel cancel']]);
  expect(await rows()).toEqual([
    [keyOf(1), false],
    [keyOf(2), false],
  ]);
  erp.throwFaults();
});

test('an award that another supplier has now is withdrawn from the one who had it', async () => {
  await pusher.store('sourcing-events', eventRecord(event, people));
  await pusher.award([2, '25'], [3, '5']);
  await letGo();
  await push();
  expect(living()).toEqual([
    [keyOf(2), '25'],
    [keyOf(3), '5'],
  ]);
  erp.throwFaults();
});

test('the withdrawals of what was found wait for a person like any others', async () => {
  await loseAndRestore({ withdrawals: { most: 1, share: 0 } });
  await pusher.store('sourcing-events', { ...eventRecord(event, people), status: 'DELETED' });
  await letGo();
  await push();
  expect([living().length, (await pusher.flowRow())?.paused_kind]).toEqual([2, 'withdrawals']);
  const agreement = { agreeToWithdrawals: true };
  await resumeFlow(pusher.db.database, 'erp', agreement, timestampNow(pusher.clock));
  await push();
  expect(living()).toEqual([]);
  erp.throwFaults();
});

test('an ERP that cannot tell what it holds is asked again, and nothing is forgotten meanwhile', async () => {
  await pusher.store('sourcing-events', { ...eventRecord(event, people), status: 'DELETED' });
  await letGo();
  const { onLookup } = erp;
  erp.onLookup = async () => {
    throw new Error('The ERP is away.');
  };
  await push();
  expect([living().length, (await rows()).length]).toEqual([2, people.length]);
  // It tells of the others: they hold nothing up, and the ERP is asked again before anything of these is written.
  erp.onLookup = async (documents, find) => {
    const clear = await onLookup(documents, find);
    return clear.map((found) => (found.key === keyOf(2) ? { key: found.key, unclear: 'two objects' } : found));
  };
  await push();
  expect(living()).toEqual([[keyOf(2), '20']]);
  erp.onLookup = onLookup;
  pusher.clock.advance(600_000);
  await push();
  expect(living()).toEqual([]);
});
