/** The document of all awards of an event, on its way: never a part of it, and one object, however the awards arrive. */
import { beforeEach, expect, test } from 'vitest';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { timestampNow } from '#platform/clock.ts';
import { eventRecord, idOf, lotAwardRecord, nextModified } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, event, type Pusher, type PushWorker, supplier } from './pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
let worker: PushWorker;

beforeEach(async () => {
  pusher = await createPusher(2, { documents: ['event-awards'] });
  erp = createFakeErp({ kinds: ['event-awards'] });
  worker = await pusher.worker(erp);
  await pusher.db.database.query(
    `insert into bridge.checkpoints (source, feed, next_pull) values ('main', 'awards', now())`,
  );
});

const closed = (lots: number, more: Record<string, unknown> = {}) =>
  eventRecord(event, [supplier(0), supplier(1)], {
    rounds: [{ status: 'COMPLETE', awarded_lot_count: lots }],
    ...more,
  });
const lot = (n: number, cost: string, winner = 0) =>
  lotAwardRecord(idOf(500 + n), event, cost === '' ? [] : [{ supplier: supplier(winner), cost }]);
/** Stores a page of awards; the pull goes on. */
const page = (...lots: ReturnType<typeof lot>[]) => pusher.store('awards', ...lots);
/** The pull of awards ends; all that is known of the feed is passed. */
const readToEnd = () =>
  pusher.db.database.query(`update bridge.checkpoints set watermark = $1, last_pull = $2 where feed = 'awards'`, [
    nextModified(),
    timestampNow(pusher.clock),
  ]);
/** After ten minutes the bridge looks again at what waits. */
const tenMinutesLater = async () => {
  pusher.clock.advance(600_000);
  await worker.push();
};
const row = async () => {
  const [found] = await pusher.db.database.query<{ due: string | null; error_type: string; last_error: string }>(
    `select due, error_type, last_error from bridge.flow_documents where key = $1`,
    [event],
  );
  return found;
};
const totals = () => erp.living().map(({ total }) => total);

test('it is delivered once, when all awards are known; a pull that has not ended, or one lot less, keeps it back', async () => {
  await pusher.store('sourcing-events', closed(2));
  await page(lot(1, '1'));
  await worker.push();
  expect(await row()).toMatchObject({
    error_type: 'not-yet',
    last_error: expect.stringContaining('2 lots are awarded'),
  });
  await readToEnd();
  await tenMinutesLater();
  expect(erp.calls).toEqual([]);
  await page(lot(2, '2'));
  await worker.push();
  expect(await row()).toMatchObject({ error_type: 'not-yet', last_error: expect.stringContaining('more may follow') });
  // Nothing new arrives: only the feed has been read further.
  await readToEnd();
  await tenMinutesLater();
  await tenMinutesLater();
  expect(erp.calls).toEqual(['write create']);
  expect(totals()).toEqual(['3']);
});

test('awards before the record of their event wait for it', async () => {
  await pusher.store('sourcing-events', closed(0, { status: 'OPEN', rounds: [{ status: 'ACTIVE' }] }));
  await page(lot(1, '1'), lot(2, '2'));
  await readToEnd();
  await worker.push();
  expect(await row()).toMatchObject({ due: null, error_type: 'held' });
  pusher.clock.advance(1_000);
  await pusher.store('sourcing-events', closed(2));
  await worker.push();
  expect(await row()).toMatchObject({ error_type: 'not-yet', last_error: expect.stringContaining('not been read') });
  await readToEnd();
  await tenMinutesLater();
  expect(erp.calls).toEqual(['write create']);
});

test('it stays while the event is open again, and is amended once with all changed awards when that is closed', async () => {
  await pusher.store('sourcing-events', closed(3));
  await page(lot(1, '1'), lot(2, '2'), lot(3, '3'));
  await readToEnd();
  await worker.push();
  expect(totals()).toEqual(['6']);

  await pusher.store('sourcing-events', closed(3, { status: 'OPEN', rounds: [{ status: 'ACTIVE' }] }));
  pusher.clock.advance(1_000);
  // The same number of lots, two of them with another winner: the second one comes late.
  await page(lot(1, '10', 1));
  await worker.push();
  await pusher.store('sourcing-events', closed(3));
  await worker.push();
  await tenMinutesLater();
  expect(totals()).toEqual(['6']);
  await page(lot(2, '20', 1));
  await readToEnd();
  await worker.push();
  await tenMinutesLater();
  expect(erp.calls).toEqual(['write create', 'write amend']);
  expect(totals()).toEqual(['33']);
});

test('it is withdrawn when all awards are taken back, and comes again with new ones', async () => {
  await pusher.store('sourcing-events', closed(1));
  await page(lot(1, '1'), lot(2, ''));
  await readToEnd();
  await worker.push();
  await pusher.store('sourcing-events', closed(1, { rounds: [{ status: 'CLOSED' }] }));
  await readToEnd();
  await worker.push();
  expect(totals()).toEqual(['1']);
  await page(lot(1, ''));
  await readToEnd();
  await tenMinutesLater();
  expect(totals()).toEqual([]);
  await pusher.store('sourcing-events', closed(1));
  await page(lot(2, '7'));
  await readToEnd();
  await tenMinutesLater();
  expect(totals()).toEqual(['7']);
  erp.throwFaults();
});

test('a supplier that gets its external id changes the document that shows it', async () => {
  await pusher.store('sourcing-events', closed(1));
  await page(lot(1, '1'));
  await readToEnd();
  await worker.push();
  await pusher.db.database.transaction((tx) =>
    storeResources(tx, {
      source: 'main',
      kind: 'supplier',
      objects: [{ id: supplier(0), name: 'Supplier 0', external_id: 'V-1' }],
      observed: timestampNow(pusher.clock),
      now: timestampNow(pusher.clock),
    }),
  );
  await worker.push();
  expect(erp.operations.at(-1)).toMatchObject({
    action: 'amend',
    document: { lines: [{ supplier: { external_id: 'V-1' } }], suppliers: [{ external_id: 'V-1' }] },
  });
});
