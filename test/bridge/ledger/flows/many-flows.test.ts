import { expect, test } from 'vitest';
import { flowsWithDue } from '#bridge/ledger/flows/flow-state.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { resumeOnSettingsChange } from '#bridge/ledger/flows/resume-on-settings-change.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { createPusher } from '../../push/pusher.ts';

/** The same database, and how many statements were sent to it. */
function counted(database: Database) {
  let statements = 0;
  const count = (sql: Sql): Sql => ({
    query: (statement, params) => {
      statements += 1;
      return sql.query(statement, params);
    },
  });
  const transaction: Database['transaction'] = (work) => database.transaction((tx) => work(count(tx)));
  return { database: { ...database, ...count(database), transaction }, statements: () => statements };
}

test('A start with 300 new flows sends as many statements as one with 2', async () => {
  const pusher = await createPusher();
  const secrets = createSecretBox(Buffer.alloc(32, 1));
  const start = async (prefix: string, length: number) => {
    const { database, statements } = counted(pusher.db.database);
    const flows = Array.from({ length }, (_, index) => ({
      ...pusher.flow,
      name: `${prefix}-${index}`,
      source: `${prefix}-source-${index}`,
    }));
    const now = timestampNow(pusher.clock);
    await registerFlows(database, flows, now);
    await resumeOnSettingsChange(database, flows, secrets, now);
    await flowsWithDue(database, flows, now, null);
    const [{ registered } = { registered: 0 }] = await pusher.db.database.query<{ registered: number }>(
      `select count(*)::int as registered from bridge.flows
       where name = any($1) and kinds <> '{}' and settings_mac is not null`,
      [flows.map(({ name }) => name)],
    );
    expect(registered).toBe(length);
    return statements();
  };
  const few = await start('few', 2);
  expect(await start('many', 300)).toBe(few);
});
