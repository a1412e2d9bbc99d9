/** `audit-log`, on a database with the logs of both programs. */
import { expect, test } from 'vitest';
import { type AuditedProgram, recordAction } from '#platform/audit-log.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase, createTestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const db = await createTestDatabase();
const folder = await scratchFolder();

const command = (args: readonly string[], url = db.url) =>
  runHere(['audit-log', ...args, '--data', folder], { DATABASE_URL: url });

async function record(
  program: AuditedProgram,
  minute: number,
  object: string,
  outcome: 'allowed' | 'refused' = 'allowed',
) {
  const when = `2026-03-01T10:${String(minute).padStart(2, '0')}:00.000000Z`;
  const by = { who: { kind: 'token', name: 'operator' }, from: '192.0.2.7' } as const;
  await recordAction(db.database, program, { ...by, what: 'thing.change', object, when, outcome, details: { minute } });
}

for (const [minute, program] of (['service', 'bridge', 'service', 'bridge'] as const).entries())
  await record(program, minute, `thing ${minute}`, minute === 3 ? 'refused' : 'allowed');

test('shows both logs as one, the latest first, and says that there is more', async () => {
  const first = await command(['--limit', '3']);
  expect(first.code).toBe(0);
  expect(first.stdout).toMatch(
    /^when .*\n.*thing 3.*refused.*\n.*thing 2.*\n.*thing 1.*\nThere is more: --limit shows it\.\n$/,
  );
  const { actions, hasMore } = JSON.parse((await command(['--json'])).stdout);
  expect([actions.slice(3), hasMore]).toMatchObject([
    [
      {
        program: 'service',
        when: '2026-03-01T10:00:00.000000Z',
        who: { kind: 'token', name: 'operator' },
        from: '192.0.2.7',
        what: 'thing.change',
        object: 'thing 0',
        outcome: 'allowed',
        details: { minute: 0 },
      },
    ],
    false,
  ]);
});

test.each([
  [
    ['--program', 'bridge'],
    ['thing 3', 'thing 1'],
  ],
  [['--outcome', 'refused'], ['thing 3']],
  [['--object', 'thing 2'], ['thing 2']],
  [
    ['--from', '2026-03-01T10:01:00Z', '--to', '2026-03-01T10:03:00Z'],
    ['thing 2', 'thing 1'],
  ],
  [
    ['--what', 'thing', '--name', 'operator'],
    ['thing 3', 'thing 2', 'thing 1', 'thing 0'],
  ],
  [['--name', 'anna'], []],
])('exports what fits %j as JSON Lines', async (filter, objects) => {
  const { code, stdout } = await command(['--jsonl', ...filter]);
  const lines = stdout.split('\n').filter((line) => line !== '');
  expect([code, lines.map((line) => (JSON.parse(line) as { object: string }).object)]).toEqual([0, objects]);
});

test('exports more than a page, each entry once', async () => {
  await db.database.query(
    `insert into service.actions select gen_random_uuid(), '2025-01-01Z', 'token', 'many', 'many.entries', n::text, null,
       'allowed', '{}' from generate_series(1, 2500) n`,
  );
  const { stdout } = await command(['--jsonl', '--name', 'many']);
  const objects = stdout
    .trim()
    .split('\n')
    .map((line) => Number((JSON.parse(line) as { object: string }).object));
  expect(objects.sort((one, other) => one - other)).toEqual(Array.from({ length: 2_500 }, (_, index) => index + 1));
});

test('says what to do where no log is', async () => {
  const empty = await createEmptyDatabase();
  const { code, stderr } = await command([], empty.url);
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(/no audit log that its role may read. Start the program first/),
  ]);
});

test('--verify follows the chain of each log, and fails where one is broken', async () => {
  await db.database.query('select service.link_actions(10000), bridge.link_actions(10000)');
  const whole = await command(['--verify']);
  expect(whole.stderr).toBe('');
  expect([whole.code, whole.stdout]).toEqual([
    0,
    expect.stringMatching(/^bridge: 2 entries are whole\. .* number 2 .*\nservice: 2502 entries are whole\. .*\n$/),
  ]);
  await db.database.query('alter table bridge.actions disable trigger all');
  await db.database.query("update bridge.actions set name = 'somebody' where object = 'thing 3'");
  const broken = await command(['--verify', '--json']);
  expect(broken.code).toBe(1);
  expect(JSON.parse(broken.stdout)).toMatchObject({
    chains: [
      { program: 'bridge', broken: { number: 2 } },
      { program: 'service', broken: null },
    ],
  });
});
