/**
 * The subcommands of `bridge` on one database, against a hand-made source and the file connector. Most of them run
 * within this process, because a process for each takes long; test/cli/main.test.ts runs the command line as a process.
 */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type FeedSource, startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../bridge/parts.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere, startCommandLine } from './command-line.ts';

const event = idOf(1);
const supplier = idOf(101);
const key = `${event}/${supplier}`;

/** The programs use the machine's clock, so the changes lie in the past. */
const modified = (second: number) => `2026-01-01T00:00:0${second}.000000Z`;

let db: TestDatabase;
let source: FeedSource;
let folder: string;
let config: string;

beforeAll(async () => {
  db = await createTestDatabase();
  source = await startFeedSource();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  await writeFile(config, JSON.stringify(configurationOf(source.url)));
  // With a single record no feed can prove the order of commits that it declares.
  const before = { modified: '2025-12-31T00:00:00.000000Z' };
  source.append('sourcing-events', eventRecord(idOf(900), [supplier], before));
  source.append('awards', lotAwardRecord(idOf(901), event, [], before));
  source.append('sourcing-events', eventRecord(event, [supplier], { modified: modified(0) }));
  source.append('awards', lotAwardRecord(idOf(500), event, [{ supplier, cost: '10' }], { modified: modified(1) }));
});

function configurationOf(baseUrl: string) {
  return {
    bridge: {
      port: 0,
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: baseUrl,
          api_key: 'feed-key',
          feeds: ['sourcing-events', 'awards'],
          includes: false,
          audit_hours: 0,
          poll_seconds: 3600,
        },
      ],
      flows: [{ name: 'erp', source: 'main', connector: 'file', settings: { directory: 'erp' } }],
    },
  };
}

/** Runs a command without a terminal, as a scheduler does. */
function bridge(...args: readonly string[]) {
  return runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });
}

/** Runs a command with `--json` and returns the one value that it prints. */
async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await bridge(...args, '--json');
  expect(stderr).not.toMatch(/^\s+at .*:\d+/m);
  return { code, value: JSON.parse(stdout) };
}

test('before any process has run, every configured feed and flow is shown as not known, and status --max fails', async () => {
  const status = await json('status');
  const notBegun = { lag: { seconds: null, inStep: false } };
  expect(status.value.feeds).toMatchObject([
    { source: 'main', feed: 'awards', ...notBegun },
    { source: 'main', feed: 'sourcing-events', ...notBegun },
  ]);
  expect(status.value.flows).toMatchObject([{ flow: 'erp', source: 'main', ...notBegun }]);
  expect([status.code, status.value.processes]).toEqual([1, []]);
  const late = await bridge('status', '--max', '1000000');
  expect([late.code, late.stdout]).toEqual([1, expect.stringMatching(/^erp +not known .*role push/m)]);
});

test('run reads every feed to its end, delivers everything that is due, and exits with 0', async () => {
  const { code, value } = await json('run');
  expect([code, value.ok, value.failedFeeds, value.undelivered]).toEqual([0, true, [], 0]);
  expect(value.status.flows).toMatchObject([{ flow: 'erp', due: 0, deadLetters: 0 }]);
  expect(
    readdirSync(join(folder, 'erp')).filter((name) => name.endsWith('.json') && !name.startsWith('.')),
  ).toHaveLength(1);
});

test('run shows its progress as plain lines on standard error, and its result on standard output', async () => {
  const { code, stdout, stderr } = await bridge('run');
  expect(code).toBe(0);
  expect(stderr).toMatch(/^feeds 2\/2$/m);
  expect(stdout).toMatch(/^flow +to deliver +dead letters +state$/m);
});

test('status shows the state, for people and for programs; with --max it fails for what is further behind', async () => {
  const idle = expect.stringMatching(/^up to date, read \d+ s ago$/);
  const status = await json('status');
  expect(status.code).toBe(0);
  expect(status.value).toMatchObject({
    feeds: [
      { source: 'main', feed: 'awards', waiting: 0, failures: 0, lag: { inStep: true, why: idle } },
      { source: 'main', feed: 'sourcing-events' },
    ],
    flows: [{ flow: 'erp', due: 0, lag: { inStep: true } }],
    delivered: [{ flow: 'erp', kind: 'award', key }],
  });
  const text = await bridge('status');
  expect(text.stdout).toMatch(/^main +awards +- .* up to date, read \d+ s ago$/m);
  expect(text.stdout).toMatch(/^No process of the bridge runs: until one is started, nothing is read or delivered/);
  expect((await bridge('status', '--max', '3600')).code).toBe(0);
  expect((await bridge('status', '--max', '0')).code).toBe(1);
});

test.each([
  [['pause', 'nope'], 'There is no flow "nope"; those that exist are: erp.'],
  [['plan', 'nope'], 'There is no flow "nope"; those that exist are: erp.'],
  [['audit', 'nope/awards'], 'There is no source "nope"; those that exist are: main.'],
  [['audit', 'main/latest-bids'], 'its feeds are: sourcing-events, awards.'],
  [['audit', 'main'], 'Name the source and the feed: main/sourcing-events, main/awards.'],
  [['checkpoint', 'set', 'main/awards', 'yesterday'], '"yesterday" is not a time'],
  [['replay', '--flow', 'erp'], 'Say what to replay'],
  [['replay', '--flow', 'erp', '--all', '--dead'], 'Say what to replay'],
  [['replay', '--flow', 'erp', '--kind', 'order', '--yes'], 'There is no kind of document "order"'],
  [['replay', '--flow', 'erp', '--all'], 'There is no terminal for the answer: add --yes.'],
  [['checkpoint', 'set', 'main/awards'], 'There is no terminal for the answer: add --yes.'],
  [['backfill', 'start', 'main/awards', '--from', 'soon'], 'It must be a time'],
  [['backfill', 'start', 'main/awards', '--from', '2030-01-02', '--to', '2030-01-01'], 'before'],
  [['backfill', 'cancel', '99'], 'There is no backfill 99'],
  [['status', '--role', 'pull'], "unknown option '--role'"],
  [['document-schema', 'order'], 'There is no kind "order"'],
])('%j is wrong usage: exit code 2, and a message that says what is possible', async (args, message) => {
  const { code, stdout, stderr } =
    args[0] === 'document-schema' ? await runHere(['bridge', ...args]) : await bridge(...args);
  expect(stderr).toContain(message);
  expect(stderr).not.toMatch(/^\s+at .*:\d+/m);
  expect([code, stdout]).toEqual([2, '']);
});

test('a paused flow delivers nothing, and says why; plan shows what waits; a resumed flow delivers', async () => {
  expect(await json('pause', 'erp', '--reason', 'month end')).toMatchObject({ code: 0, value: { paused: true } });
  source.append('awards', lotAwardRecord(idOf(500), event, [{ supplier, cost: '12' }], { modified: modified(2) }));
  const run = await json('run');
  expect([run.code, run.value.ok]).toEqual([1, false]);
  const status = await json('status');
  expect(status.code).toBe(1);
  expect(status.value.flows).toMatchObject([
    { pausedKind: 'operator', pausedReason: 'month end', due: 1, lag: { why: 'paused: month end' } },
  ]);
  const plan = await json('plan', 'erp');
  expect(plan.code).toBe(1);
  expect(plan.value.plans).toMatchObject([{ flow: 'erp', changes: [{ action: 'amend', kind: 'award', key }] }]);

  expect((await json('resume', 'erp')).code).toBe(0);
  expect((await json('run')).code).toBe(0);
  const after = await json('plan');
  expect([after.code, after.value.plans]).toEqual([0, [{ flow: 'erp', changes: [], documents: 0, registered: true }]]);
  const [{ kinds } = { kinds: [] }] = await db.database.query<{ kinds: string[] }>('select kinds from bridge.flows');
  await db.database.query(`update bridge.flows set kinds = '{}'`);
  const unknown = await bridge('plan', 'erp');
  expect([unknown.code, unknown.stdout]).toEqual([1, expect.stringContaining('This flow is not registered yet')]);
  await db.database.query('update bridge.flows set kinds = $1', [kinds]);
  expect((await json('plan', 'erp')).code).toBe(0);
});

test('dead letters are shown with the ERP’s message, and replayed', async () => {
  expect(await json('dead-letters')).toEqual({ code: 0, value: { deadLetters: [], intakes: [], hasMore: false } });
  await db.database.query(
    `update bridge.flow_documents
     set dead_since = now(), waiting_since = now(), error_type = 'data', last_error = 'no such vendor', wanted = wanted + 1`,
  );
  const dead = await json('dead-letters', '--flow', 'erp');
  expect(dead).toMatchObject({ code: 1, value: { deadLetters: [{ flow: 'erp', key, lastError: 'no such vendor' }] } });
  // A dead letter is not delivered by a run.
  expect((await json('run')).code).toBe(1);
  expect(await json('replay', '--flow', 'erp', '--dead', '--yes')).toEqual({
    code: 0,
    value: { flow: 'erp', replayed: 1 },
  });
  expect((await json('run')).code).toBe(0);
  expect((await json('replay', '--flow', 'erp', '--key', 'no-such-key')).code).toBe(1);
});

describe('more than the limit', () => {
  const keys = [1, 2, 3, 4, 5].map((number) => `${idOf(number + 10)}/${supplier}`);
  const insert = (columns: string, values: string) =>
    db.database.query(
      `insert into bridge.flow_documents (flow, kind, key, ${columns}) select 'erp', 'award', key, ${values} from unnest($1::text[]) key`,
      [keys],
    );
  afterEach(() => db.database.query('delete from bridge.flow_documents where key = any($1)', [keys]));

  test('of dead letters is announced, and a higher limit shows all', async () => {
    await insert('dead_since, waiting_since, last_error', `'2026-01-01', '2026-01-01', 'refused'`);
    const some = await json('dead-letters', '--flow', 'erp', '--limit', '2');
    expect([some.code, some.value.deadLetters.length, some.value.hasMore]).toEqual([1, 2, true]);
    const { value } = await json('dead-letters', '--flow', 'erp', '--limit', '5');
    expect(value.deadLetters.map((one: { key: string }) => one.key).toSorted()).toEqual(keys);
    expect(value.hasMore).toBe(false);
    expect((await bridge('dead-letters', '--limit', '2')).stdout).toMatch(/^There is more: --limit shows it\.$/m);
  });

  test('of a plan is announced, and a higher limit shows all', async () => {
    await insert('due, waiting_since', `'2026-01-01', '2026-01-01'`);
    const { value } = await json('plan', 'erp', '--limit', '5');
    expect(value.plans).toMatchObject([{ flow: 'erp', documents: 5 }]);
    expect(value.plans[0].changes.map((one: { key: string }) => one.key).toSorted()).toEqual(keys);
    expect((await bridge('plan', '--limit', '2')).stdout).toMatch(/^2 of 5\. There is more: --limit shows it\.$/m);
    // With --all the document that is delivered already counts, too.
    const all = await bridge('plan', 'erp', '--all', '--limit', '4');
    expect(all.stdout).toMatch(/^4 of 6\. There is more/m);
    expect((await bridge('plan', '--limit', '5')).stdout).not.toContain('There is more');
  });
});

test('a checkpoint is set back, and to the beginning, and the feed is read from there', async () => {
  const watermarkOf = async () => {
    const { feeds } = (await json('status')).value as { feeds: { feed: string; watermark: string | null }[] };
    return feeds.find(({ feed }) => feed === 'awards')?.watermark;
  };
  expect(await watermarkOf()).toBe(modified(2));
  expect((await json('checkpoint', 'set', 'main/awards', '2025-01-01')).code).toBe(0);
  expect(await watermarkOf()).toBe('2025-01-01T00:00:00.000000Z');
  source.asked.length = 0;
  expect((await json('run')).code).toBe(0);
  // From the new checkpoint on, or from an instant before it.
  expect(source.asked).toContainEqual(expect.stringMatching(/^awards\?.*modified_after=(2025-01-01|2024-12-31T23)/));

  expect((await bridge('checkpoint', 'set', 'main/awards', '2026-02-01')).stderr).toContain('will not be read');
  expect((await json('checkpoint', 'set', 'main/awards', '--yes')).code).toBe(0);
  expect(await watermarkOf()).toBeNull();
  expect((await json('run')).code).toBe(0);
});

test('a backfill is started, listed and worked by a run; an open one is cancelled', async () => {
  const range = ['main/awards', '--from', '2025-01-01', '--to', '2026-02-01'];
  const asked = await json('backfill', 'start', ...range);
  expect(asked).toMatchObject({ code: 0, value: { finished: null, from: '2025-01-01T00:00:00.000000Z' } });
  expect((await json('run')).code).toBe(0);
  const { backfills } = (await json('backfill', 'list')).value;
  // The bridge may have opened others by itself.
  expect(backfills.filter(({ kind }: { kind: string }) => kind === 'range')).toMatchObject([
    { id: asked.value.id, records: 2, lastError: null, finished: expect.any(String) },
  ]);

  const second = await json('backfill', 'start', ...range);
  const stateIn = async (...command: string[]) =>
    new RegExp(`^ *${second.value.id} .* (under way.*)$`, 'm').exec((await bridge(...command)).stdout)?.[1];
  expect(await stateIn('backfill', 'list')).toBe('under way');
  // It has read half of the range, from the oldest record on, in an hour and a half.
  await db.database.query(
    `update bridge.backfills set position = oldest + (range_end - oldest) / 2, asked = now() - interval '90 minutes'
     from (select min(modified) as oldest from bridge.mirror where feed = 'awards') m where id = $1`,
    [second.value.id],
  );
  for (const command of [['backfill', 'list'], ['status']])
    expect(await stateIn(...command)).toBe('under way: 50 %, about 1.5 h left');
  const cancelled = await json('backfill', 'cancel', String(second.value.id));
  expect(cancelled.code).toBe(0);
  expect(cancelled.value.cancelled).not.toBeNull();
  // The first one is finished, so it cannot be cancelled.
  expect((await json('backfill', 'cancel', String(asked.value.id))).code).toBe(1);
});

test('an audit is requested for one feed or for all', async () => {
  expect((await json('audit', 'main/awards')).value).toEqual({ asked: ['main/awards'] });
  expect((await json('audit')).value.asked).toEqual(['main/sourcing-events', 'main/awards']);
});

test('mapping try shows the documents as the configuration makes them', async () => {
  const tried = await json('mapping', 'try', 'erp', '--event', event);
  expect(tried.code).toBe(0);
  expect(tried.value.documents).toMatchObject([{ kind: 'award', key, result: 'document', document: { key } }]);
  const [{ name }] = (await db.database.query<{ name: string }>(
    `select name from bridge.subjects where kind = 'event'`,
  )) as [{ name: string }];
  expect((await json('mapping', 'try', 'erp', '--event', name)).value).toEqual(tried.value);
  const unknown = await bridge('mapping', 'try', 'erp', '--event', 'No such event');
  expect([unknown.code, unknown.stdout]).toEqual([1, 'The mirror holds nothing for this flow of "No such event".\n']);
});

test('document-schema prints the JSON Schema of one kind, or of all', async () => {
  const one = await runHere(['bridge', 'document-schema', 'award']);
  expect([one.code, JSON.parse(one.stdout).type]).toEqual([0, 'object']);
  const all = await runHere(['bridge', 'document-schema']);
  expect(Object.keys(JSON.parse(all.stdout))).toEqual([
    'supplier',
    'sourcing-event',
    'quotation',
    'award',
    'event-awards',
    'rfi-answers',
    'file',
    'job',
  ]);
});

test('doctor probes each feed of a source that answers, and says a fault of a whole source once', async () => {
  const well = await json('doctor');
  const namesOf = (value: { findings: { name: string }[] }) => value.findings.map(({ name }) => name);
  expect(namesOf(well.value)).toEqual(expect.arrayContaining(['source main: awards', 'source main: sourcing-events']));
  const away = join(folder, 'away.yaml');
  await writeFile(away, JSON.stringify(configurationOf('http://127.0.0.1:1')));
  const failed = await runHere(['bridge', 'doctor', '--json', '--config', away, '--data', folder], {
    DATABASE_URL: db.url,
  });
  expect(failed.code).toBe(1);
  const value = JSON.parse(failed.stdout);
  expect(value.findings).toContainEqual(
    expect.objectContaining({
      name: 'source main',
      level: 'fail',
      message: expect.stringContaining('could not be connected to'),
    }),
  );
  expect(namesOf(value)).not.toContain('source main: awards');
});

test('doctor works before the first start: it makes the tables of an empty database', async () => {
  const empty = await createEmptyDatabase();
  const { stdout } = await runHere(['bridge', 'doctor', '--config', config, '--data', folder], {
    DATABASE_URL: empty.url,
  });
  expect(stdout).toMatch(/^ok +database: tables +as this version needs them$/m);
  expect(stdout).toMatch(/^ok +source main: awards +\S/m);
  expect(stdout).toMatch(/^ok +flow erp: mapping +no record has been read yet$/m);
});

test('doctor tries the mapping on the newest records, and says what would be a dead letter', async () => {
  const strict = configurationOf('http://127.0.0.1:1');
  const mapping = { award: { fields: { plant: { from: 'event.tags[Plant]', required: true } } } };
  const flows = strict.bridge.flows.map((flow) => ({ ...flow, mapping }));
  const file = join(folder, 'strict.yaml');
  await writeFile(file, JSON.stringify({ bridge: { ...strict.bridge, flows } }));
  const mappingOf = async (of: string) => {
    const args = ['bridge', 'doctor', '--json', '--config', of, '--data', folder];
    const { stdout } = await runHere(args, { DATABASE_URL: db.url });
    const { findings } = JSON.parse(stdout) as { findings: { name: string }[] };
    return findings.find(({ name }) => name === 'flow erp: mapping');
  };
  expect(await mappingOf(file)).toMatchObject({
    level: 'fail',
    message: expect.stringMatching(/^1 of the 1 newest documents cannot be made and would be dead letters, .*Plant/),
  });
  await writeFile(file, JSON.stringify(strict));
  expect(await mappingOf(file)).toMatchObject({ level: 'ok' });
});

test.each([
  ['/dev/null', 'made'],
  ['/proc/self', 'written'],
  [import.meta.filename, 'made'],
  [join(import.meta.filename, 'data'), 'made'],
])('a data folder that would be %s cannot be %s: exit code 2, and a message that says so', async (data, what) => {
  const { code, stdout, stderr } = await runHere(['bridge', 'status', '--config', config, '--data', data], {
    DATABASE_URL: db.url,
  });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr.slice(0, stderr.indexOf('('))).toBe(`The data folder ${data} cannot be ${what} `);
  expect(stderr).toContain('). Name another with --data or DATA_DIR.\n');
});

test('a data folder is made together with its missing parent folders', async () => {
  const data = join(folder, 'above', 'data');
  const { code } = await runHere(['bridge', 'dead-letters', '--config', config, '--data', data], {
    DATABASE_URL: db.url,
  });
  expect([code, readdirSync(data).filter((name) => name.startsWith('.writable'))]).toEqual([0, []]);
});

test('a database that is not available is named with its message, never with its password', async () => {
  const { code, stdout, stderr } = await runHere(['bridge', 'status', '--json', '--config', config, '--data', folder], {
    DATABASE_URL: `${db.url.replace('postgres@', 'postgres:hunter2@')}-not-there`,
  });
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^Database .*-not-there: cannot connect: .*does not exist/m);
  expect(stderr).not.toMatch(/hunter2|^\s+at .*:\d+/m);
});

test('tables of an earlier, unreleased version stop a command with one sentence that says what to do', async () => {
  const old = await createEmptyDatabase();
  await old.database.query(
    `create schema bridge;
     create table bridge.migrations (number int, name text, sha256 text, applied timestamptz default now());
     insert into bridge.migrations values (1, '001_bridge.sql', 'x')`,
  );
  const args = ['bridge', 'status', '--config', config, '--data', folder];
  const { code, stdout, stderr } = await runHere(args, { DATABASE_URL: old.url });
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^The schema bridge holds tables of an earlier, .* \(DATA_DIR or --data\) [^\n]*\.\n$/);
});

test('Ctrl-C while the database does not answer ends the command, and says that it was stopped', async () => {
  const away = createServer((socket) => void socket.destroy()).listen(0, '127.0.0.1');
  onTestFinished(() => void away.close());
  await once(away, 'listening');
  const asked = once(away, 'connection');
  const { port } = away.address() as AddressInfo;
  const status = startCommandLine(['bridge', 'status', '--config', config, '--data', folder], {
    DATABASE_URL: `postgres://u@127.0.0.1:${port}/x`,
  });
  await asked;
  status.signal('SIGINT');
  expect([await status.ended, status.stdout(), status.stderr()]).toEqual([
    1,
    '',
    'The command was stopped before its end.\n',
  ]);
});

test('a reader that stops reading, as head does, breaks nothing', async () => {
  const program = startCommandLine(['bridge', 'run', '--config', config, '--data', folder], { DATABASE_URL: db.url });
  program.hangUp();
  expect(await program.ended).toBe(0);
});

test('run tries each feed once, also a feed whose last pull failed and that a daemon would not try yet', async () => {
  const away = join(folder, 'away.yaml');
  await writeFile(away, JSON.stringify(configurationOf('http://127.0.0.1:1')));
  const failed = await runHere(['bridge', 'run', '--json', '--config', away, '--data', folder], {
    DATABASE_URL: db.url,
  });
  expect([failed.code, JSON.parse(failed.stdout).failedFeeds]).toEqual([1, ['main/awards', 'main/sourcing-events']]);
  for (const command of ['status', 'doctor'])
    expect((await bridge(command)).stdout).toMatch(/the last pull failed.*could not be connected to/);
  // The reason lies at the source: the table of feeds shows it once.
  expect((await bridge('status')).stdout).toMatch(
    /sourcing-events .*the last pull failed, the next is at \S+: as awards$/m,
  );
  const { code, value } = await json('run');
  expect([code, value.failedFeeds]).toEqual([0, []]);
});

test('commands that need a source refuse a configuration without one, and remove no flow', async () => {
  const empty = join(folder, 'empty.yaml');
  await writeFile(empty, '{}');
  for (const words of ['run', 'audit', 'status', 'plan']) {
    const args = ['bridge', words, '--json', '--config', empty, '--data', folder];
    const { code, stdout, stderr } = await runHere(args, { DATABASE_URL: db.url });
    expect([words, code, stdout, stderr]).toEqual([words, 2, '', expect.stringContaining('bridge.sources')]);
  }
  const doctor = await runHere(['bridge', 'doctor', '--config', empty, '--data', folder], { DATABASE_URL: db.url });
  expect(doctor.stdout).toMatch(/^warn +configuration +valid; sources: none; flows: none\n +-> .*--config/m);
  expect((await json('status')).value.flows).toMatchObject([{ flow: 'erp' }]);
});

describe('doctor', () => {
  interface Finding {
    name: string;
    level: string;
    message: string;
    todo?: string;
  }

  test('examines everything, and says what to do about each warning and failure', async () => {
    const { code, value } = await json('doctor');
    const findings = value.findings as Finding[];
    // A feed that is behind is named with its condition.
    const names = findings.map(({ name }) => name.replace(/^(feed \S+): .*/, '$1'));
    for (const name of [
      'versions',
      'configuration',
      'queue',
      'disk',
      'database',
      'database: clock',
      'database: tables',
      'certificate',
      'webhook endpoint',
      'master key',
      'processes',
      'source main',
      'source main: clock',
      'source main: webhook',
      'source main: notifications',
      'feed main/awards',
      'flow erp',
    ])
      expect(names).toContain(name);
    for (const { level, name, todo } of findings)
      expect([name, level === 'ok' || todo !== undefined]).toEqual([name, true]);
    expect(code).toBe(findings.some(({ level }) => level === 'fail') ? 1 : 0);
  });

  test('continues when a part is not available, and shows no password', async () => {
    const { code, stdout } = await runHere(['bridge', 'doctor', '--config', config, '--data', folder], {
      DATABASE_URL: 'postgres://sourcing:hunter2-hunter2@127.0.0.1:1/nowhere',
      REDIS_URL: 'redis://:hunter2-hunter2@127.0.0.1:1',
    });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^fail +queue +Redis does not answer: .*ECONNREFUSED/m);
    expect(stdout).toMatch(/^fail +installation +.*ECONNREFUSED/m);
    expect(stdout).toMatch(/^ok +versions/m);
    expect(stdout).not.toContain('hunter2');
  });

  test('says that a configuration is not valid, and what is wrong with it', async () => {
    const wrong = join(folder, 'wrong.yaml');
    await writeFile(wrong, JSON.stringify({ bridge: { port: 'high', flows: [] } }));
    const { code, stdout } = await runHere(['bridge', 'doctor', '--config', wrong, '--data', folder]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^fail +configuration +.*bridge\.port/m);
  });
});

test('a command beside a daemon on the embedded database attaches to it, and leaves it running', async () => {
  const data = join(await scratchFolder(), 'data');
  const daemon = startCommandLine(['bridge', '--role', 'pull', '--config', config, '--data', data]);
  await daemon.line(/^bridge ready as pull/);
  const doctor = await runHere(['bridge', 'doctor', '--json', '--config', config, '--data', data]);
  const findings = JSON.parse(doctor.stdout).findings as { name: string; message: string }[];
  const processes = findings.filter(({ name }) => name === 'processes').map(({ message }) => message);
  expect(processes).toContainEqual(expect.stringMatching(new RegExp(`^bridge-pull .* ${daemon.pid},`)));
  expect(processes).toContain('none has the role push');
  const status = await runHere(['bridge', 'status', '--config', config, '--data', data]);
  expect(status.stdout).toContain('awards');
  daemon.signal('SIGTERM');
  expect([await daemon.ended, daemon.stderr().match(/"level":"(error|fatal)".*/g)]).toEqual([0, null]);
});
