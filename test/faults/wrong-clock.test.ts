/**
 * Receiver and puller run on a machine whose clock is a day ahead, the pusher on one whose clock is right. What is due goes
 * by the database's time, so the awards are delivered now and not tomorrow. The clock of this machine cannot be set: the
 * `Date` of these programs is moved instead, before they are loaded.
 */
import { expect, test } from 'vitest';
import { createTestDatabase } from '../harness/test-database.ts';
import { deliverByRoles } from './each-role.ts';

const aDayAhead = `data:text/javascript,${encodeURIComponent(`
  const aheadMs = 86_400_000;
  const Right = Date;
  globalThis.Date = class Date extends Right {
    constructor(...given) {
      super(...(given.length === 0 ? [Right.now() + aheadMs] : given));
    }
    static now() {
      return Right.now() + aheadMs;
    }
  };
`)}`;

test('a receiver and a puller whose clock is a day ahead store the time of the database, and each award is delivered once', async () => {
  const db = await createTestDatabase();
  const doubled = await deliverByRoles({
    db,
    roles: ['receive', 'pull', 'push'],
    environmentOf: (role) => (role === 'push' ? {} : { NODE_OPTIONS: `--import "${aDayAhead}"` }),
    story: { events: 2, suppliers: 3, lots: 4 },
  });
  expect(doubled).toEqual([]);
  const tomorrow = await db.database.query('select from bridge.inbox where received > clock_timestamp()');
  expect(tomorrow).toEqual([]);
});
