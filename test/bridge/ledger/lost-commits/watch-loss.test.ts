/** A loss of commits that nobody has said: it is noticed, and until then nothing is claimed. */
import { expect, test } from 'vitest';
import { createLossWatch } from '#bridge/ledger/lost-commits/watch-loss.ts';
import { silentLogger } from '#platform/log.ts';
import { createFakeErp } from '../../push/fake-erp.ts';
import { createPusher, type Pusher } from '../../push/pusher.ts';

const watchOf = ({ db, clock }: Pusher) => createLossWatch({ database: db.database, clock, log: silentLogger });
const noted = async ({ db }: Pusher) =>
  (await db.database.query<{ why: string | null }>('select why from bridge.lost_commits'))[0]?.why;

test('another timeline: nothing is sent before it is noted, and then not before the source was read again', async () => {
  const pusher = await createPusher();
  const erp = createFakeErp();
  const watch = watchOf(pusher);
  await watch.look();
  await pusher.award([0, '10']);
  // As if this server was promoted since.
  await pusher.db.database.query("update bridge.lost_commits set timeline = '000000FF'");
  await (await pusher.worker(erp)).push();
  expect([erp.calls, await noted(pusher)]).toEqual([[], null]);
  await watch.look();
  await (await pusher.worker(erp)).push();
  expect([erp.calls, await noted(pusher)]).toEqual([[], 'timeline']);
});

test('an attempt that is gone: the process that wrote it sends nothing more, and notes it once', async () => {
  const pusher = await createPusher();
  const erp = createFakeErp();
  const watch = watchOf(pusher);
  const worker = await pusher.worker(erp, { newestAttempt: watch.newestAttempt });
  await pusher.award([0, '10']);
  await worker.push();
  await watch.look();
  expect([erp.living().length, await noted(pusher)]).toEqual([1, null]);
  await pusher.db.database.query('delete from bridge.attempts');
  await pusher.award([0, '20']);
  const calls = erp.calls.length;
  pusher.clock.advance(1_000);
  await worker.push();
  await watch.look();
  expect([erp.calls.length, await noted(pusher)]).toEqual([calls, 'attempt']);
  // It has forgotten it: what the flow does next is not held against it.
  await pusher.db.database.query('update bridge.flows set commits_lost = null');
  await pusher.db.database.query('update bridge.lost_commits set why = null');
  await watch.look();
  await worker.push();
  expect([erp.living().map(({ total }) => total), await noted(pusher)]).toEqual([['20'], null]);
});
