/** What is written into the tables after a loss of commits: for intakes, and by `bridge restored`. */
import { expect, test } from 'vitest';
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import { readOpenLoss } from '#bridge/ledger/lost-commits/open-loss.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { createDatabase } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { createInstallation } from '../../../faults/program-process.ts';
import { closeAtEnd } from '../../../harness/close-at-end.ts';
import { createEmptyDatabase } from '../../../harness/test-database.ts';

const restored = '2026-11-23T10:00:00.000000Z';
const before = '2026-11-23T09:00:00.000000Z';

async function bridgeDatabase() {
  const db = await createEmptyDatabase();
  closeAtEnd(() => db.drop());
  await migrateBridge(db.database);
  return db;
}

test('an intake counts its lists as unread, and what was uncertain is compared again and not repeated', async () => {
  const { database } = await bridgeDatabase();
  await database.query(
    `insert into bridge.intakes (name, source, stream, connector, next_read, last_read, compared_list)
     values ('erp', 'main', 'supplier', 'memory', $1, $1, $1)`,
    [before],
  );
  await database.query("insert into bridge.supplier_lists (source, next_pull, last_pull) values ('main', $1, $1)", [
    before,
  ]);
  const ids = { intent: '1', uncertain: '2', sent: '3' };
  for (const [state, digit] of Object.entries(ids)) {
    const id = `00000000-0000-4000-8000-00000000000${digit}`;
    await database.query(
      `insert into bridge.intake_submissions (id, intake, source, state, records, created, ends)
       values ($1, 'erp', 'main', $2, 1, $3, $3)`,
      [id, state, before],
    );
    await database.query(
      `insert into bridge.intake_records (intake, erp_key, source, content_hash, body, first_seen, seen, submission, change, action)
       values ('erp', $1, 'main', '', '{}', $3, $3, $2, '{}', 'update')`,
      [state, id, before],
    );
    await database.query(
      `insert into bridge.intake_attempts (submission, erp_key, intake, version, change) values ($1, $2, 'erp', 1, '{}')`,
      [id, state],
    );
  }
  await noteLostCommits(database, { lost: restored, why: 'restored', since: before });
  expect(await database.query('select last_read, compared_list, next_read from bridge.intakes')).toEqual([
    { last_read: null, compared_list: null, next_read: restored },
  ]);
  expect(await database.query('select last_pull, next_pull from bridge.supplier_lists')).toEqual([
    { last_pull: null, next_pull: restored },
  ]);
  expect(
    await database.query(
      'select erp_key, submission is null as free, due, action from bridge.intake_records order by erp_key',
    ),
  ).toEqual([
    { erp_key: 'intent', free: true, due: restored, action: null },
    // The service has named its id: what became of it is read.
    { erp_key: 'sent', free: false, due: null, action: 'update' },
    { erp_key: 'uncertain', free: true, due: restored, action: null },
  ]);
  expect(
    await database.query(
      'select s.state, a.outcome from bridge.intake_submissions s join bridge.intake_attempts a on a.submission = s.id order by s.id',
    ),
  ).toEqual([
    { state: 'released', outcome: 'released' },
    { state: 'released', outcome: 'released' },
    { state: 'sent', outcome: null },
  ]);
});

test('bridge restored holds every flow, and is refused while a program works on the database', async () => {
  const { database, url } = await bridgeDatabase();
  await database.query("insert into bridge.flows (name, source, kinds) values ('erp', 'main', '{award}')");
  const installation = await createInstallation({ databaseUrl: url });
  const program = createDatabase({ url, log: silentLogger, applicationName: 'bridge-push host 4711', poolMax: 1 });
  // In a transaction: a connection that nobody uses is closed after a while.
  await program.transaction(async (tx) => {
    await tx.query('select 1');
    const refused = installation.start(['bridge', 'restored']);
    expect((await refused.end).code).toBe(1);
    expect(refused.errors.join('\n')).toContain(
      'A program works on the database (bridge-push host 4711): stop it first.',
    );
  });
  expect(await readOpenLoss(database)).toBeUndefined();
  await program.close();
  const noted = installation.start(['bridge', 'restored', '--made', '2026-11-23T09:00:00Z']);
  expect((await noted.end).code).toBe(0);
  expect(await readOpenLoss(database)).toMatchObject({
    why: 'restored',
    since: before,
    flows: [{ flow: 'erp', isSourceRead: false, toLookUp: 0 }],
  });
});
