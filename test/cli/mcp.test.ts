/**
 * The assistant's server as a real process, asked by the client of the protocol's own SDK, on a database as the bridge
 * leaves it. The tests run in their order: the last ones change it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { beforeAll, describe, expect, test } from 'vitest';
import { machineUser, readActions } from '#platform/audit-log.ts';
import { ownManifest } from '#platform/own-package.ts';
import { eventId, seedConsole, seededSettings, supplierId } from '../console/seed-console.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const root = join(import.meta.dirname, '..', '..');
const node = join(root, 'node_modules', '.bin', 'node');
const readers = ['find', 'history', 'show', 'status', 'lag', 'doctor', 'plan', 'dead_letters'];
const changers = ['replay', 'pause', 'resume'];
const delivered = { flow: 'sap', kind: 'award', key: `${eventId(0)}/${supplierId(0)}` };
const refused = { flow: 'sap', kind: 'award', key: `${eventId(0)}/${supplierId(2)}` };
const secret = 'hunter-2-secret';

let db: TestDatabase;
let folder: string;
let own: readonly string[];
let env: Record<string, string>;

beforeAll(async () => {
  db = await createTestDatabase();
  await seedConsole(db.database, Date.now());
  await db.database.query(
    `update bridge.flow_documents set last_error = 'the login ${secret} is locked' where key = $1`,
    [refused.key],
  );
  folder = await scratchFolder();
  const config = join(folder, 'bridge.yaml');
  const { port, sources, flows, intakes } = seededSettings;
  // A parsed source holds defaults that a configuration does not name.
  const named = sources.map(({ name, base_url, api_key }) => ({ name, base_url, api_key }));
  await writeFile(config, JSON.stringify({ bridge: { port, sources: named, flows, intakes } }));
  own = [join(root, 'src/cli/main.ts'), 'mcp', '--config', config, '--data', join(folder, 'data')];
  env = { PATH: process.env['PATH'] ?? '', DATABASE_URL: db.url };
});

/** Starts a server with these options and connects to it; it is closed after the file. */
async function connect(...options: string[]) {
  const transport = new StdioClientTransport({
    command: node,
    args: [...own, ...options],
    env,
    cwd: folder,
    stderr: 'pipe',
  });
  let errors = '';
  transport.stderr?.on('data', (text) => {
    errors += String(text);
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  closeAtEnd(() => client.close());
  const ask = async (name: string, input: Record<string, unknown> = {}) => {
    const { content, isError = false } = await client.callTool({ name, arguments: input });
    const [first] = content as { type: string; text: string }[];
    const text = first?.text ?? '';
    const value = isError ? undefined : JSON.parse(text);
    return { text, isError, value };
  };
  return { client, ask, errors: () => errors };
}

type Connected = Awaited<ReturnType<typeof connect>>;

describe('an assistant of an operator that only reads', () => {
  let server: Connected;
  beforeAll(async () => {
    server = await connect('--role', 'operator');
  });

  test('is told the version and the tools, and which of them change something', async () => {
    expect(server.client.getServerVersion()).toMatchObject({ name: 'sourcing-bridge', version: ownManifest().version });
    const { tools } = await server.client.listTools();
    expect(tools.map((tool) => tool.name)).toEqual([...readers, ...changers]);
    expect(tools.filter(({ annotations }) => annotations?.readOnlyHint).map((tool) => tool.name)).toEqual(readers);
  });

  test('finds documents by words, and is told that there are more', async () => {
    const { value } = await server.ask('find', { text: 'RFQ-4711 Meyer' });
    expect(value.documents).toMatchObject([{ key: delivered.key }, { key: delivered.key }]);
    expect(value.more).toBeNull();
    const short = await server.ask('find', { text: 'Meyer', limit: 1 });
    expect([short.value.documents.length, short.value.more]).toEqual([1, expect.stringContaining('raise the limit')]);
  });

  test('gets the way of a document, the document itself with its amount, and a version of it', async () => {
    const history = await server.ask('history', delivered);
    expect(history.value.document).toMatchObject({ ...delivered, state: 'delivered' });
    expect(history.value.entries.length).toBeGreaterThan(2);
    const show = await server.ask('show', delivered);
    expect(show.value.versions.map((version: { number: number }) => version.number)).toEqual([1, 2]);
    expect(show.value.versions[0].amount).toMatch(/^\d+\.\d+$/);
    const version = await server.ask('show', { ...delivered, version: 1 });
    expect(version.value).toMatchObject({ number: 1, document: { lines: expect.any(Array) } });
  });

  test('gets status and lag of all feeds, flows and intakes', async () => {
    const { value } = await server.ask('status');
    expect([value.status.conditions.length > 0, value.status.flows.length, value.intakes.length]).toEqual([true, 2, 1]);
    const lag = await server.ask('lag');
    expect(lag.value.flows).toMatchObject([{ flow: 'archive', inStep: expect.any(Boolean) }, { flow: 'sap' }]);
    expect(lag.value.intakes).toMatchObject([{ intake: 'vendors', why: expect.any(String) }]);
  });

  test('gets what the doctor finds, and what a flow would write', async () => {
    const { value } = await server.ask('doctor');
    expect(value.findings).toContainEqual(expect.objectContaining({ name: 'database', level: 'ok' }));
    const plan = await server.ask('plan', { flow: 'archive', all: true, limit: 2 });
    expect(plan.value.changes).toHaveLength(2);
    expect(plan.value.more).toBe(`${plan.value.documents} documents in all`);
  });

  test('gets dead letters in groups, by pages, and those of intakes', async () => {
    const first = await server.ask('dead_letters', { limit: 4 });
    expect(first.value.groups.length).toBeGreaterThan(1);
    expect(first.value.documents).toHaveLength(4);
    expect(first.value.intakes).toMatchObject([{ intake: 'vendors', deadLetters: [{}, {}], more: null }]);
    const [, after] = /^There are more: after (\S+)$/.exec(first.value.more) ?? [];
    const second = await server.ask('dead_letters', { limit: 4, after });
    const keys = [...first.value.documents, ...second.value.documents].map(({ key }: { key: string }) => key);
    expect([keys.length, new Set(keys).size, second.value.more, second.value.intakes]).toEqual([6, 6, null, []]);
  });

  test('never gets a secret of the configuration, wherever it stands', async () => {
    const [stored] = await db.database.query('select last_error from bridge.flow_documents where key = $1', [
      refused.key,
    ]);
    expect(JSON.stringify(stored)).toContain(secret);
    for (const [tool, input] of [
      ['find', { text: 'RFQ-4711' }],
      ['history', refused],
      ['dead_letters', {}],
      ['status', {}],
    ] as const) {
      const { text, isError } = await server.ask(tool, input);
      expect([tool, isError, text.includes(secret), text.includes('key-of-the-source')]).toEqual([
        tool,
        false,
        false,
        false,
      ]);
    }
    expect((await server.ask('history', refused)).text).toContain('the login [secret] is locked');
  });

  test.each([
    ['history', { ...delivered, key: 'nothing' }, 'The flow sap has no award document with the key nothing.'],
    ['show', { ...delivered, version: 99 }, 'There is no version 99 of this document.'],
    ['plan', { flow: 'nope' }, 'The flow "nope" is not configured in this process.'],
    ['dead_letters', { after: 'elsewhere' }, 'The input is not valid: after must be the "next" of another page.'],
    ['find', { text: '' }, 'Invalid arguments for tool find'],
    ['find', { text: 'x', limit: 51 }, 'Invalid arguments for tool find'],
    ['find', { text: 'x', unknown: 1 }, 'Invalid arguments for tool find'],
  ])('%s %j is an error in a sentence, without a stack', async (tool, input, message) => {
    const { isError, text } = await server.ask(tool, input);
    expect([isError, text]).toEqual([true, expect.stringContaining(message)]);
    expect(text).not.toMatch(/\bat .*:\d+|node_modules/);
  });

  test.each(changers)('is refused to %s, and that is in the audit log', async (tool) => {
    const input = { ...(tool === 'pause' && { reason: 'x' }), ...(tool === 'replay' ? refused : { flow: 'sap' }) };
    expect(await server.ask(tool, input)).toMatchObject({
      isError: true,
      text: 'This server only reads: start it with --role operator --allow-changes.',
    });
    const [action] = await readActions(db.database, 'bridge', { limit: 1 });
    const what = tool === 'replay' ? 'documents.replay' : `flow.${tool}`;
    expect(action).toMatchObject({ what, object: 'flow sap', outcome: 'refused', details: { through: 'assistant' } });
    await server.ask(tool, { ...input, flow: 'vendors' });
    const [ofIntake] = await readActions(db.database, 'bridge', { limit: 1 });
    expect(ofIntake).toMatchObject({ what: `intake.${tool}`, object: 'intake vendors', outcome: 'refused' });
    const [flow] = await db.database.query(`select paused_kind from bridge.flows where name = 'sap'`);
    expect(flow).toEqual({ paused_kind: null });
  });
});

describe('an assistant without prices, for one flow', () => {
  const own = { ...delivered, flow: 'archive' };
  let server: Connected;
  beforeAll(async () => {
    server = await connect('--role', 'viewer-without-prices', '--flows', 'archive');
  });

  test('gets no price in any answer, and no tool of an operator', async () => {
    const show = await server.ask('show', own);
    expect(show.value.document).toMatchObject({ ...own, state: 'delivered' });
    expect(show.value.now.document.lines[0]).toMatchObject({ lot: expect.any(String) });
    const version = await server.ask('show', { ...own, version: 1 });
    expect(version.value.document.lines[0]).toMatchObject({ lot: expect.any(String) });
    for (const { text } of [show, version, await server.ask('history', own), await server.ask('status')])
      expect(text).not.toMatch(/"(amount|cost|total_cost|unit_price|values)":/);
    expect(await server.ask('plan', { flow: 'archive' })).toMatchObject({
      isError: true,
      text: 'The role is viewer-without-prices: only an operator may do this.',
    });
  });

  test('does not learn of another flow', async () => {
    const found = await server.ask('find', { text: 'RFQ-4711' });
    expect(found.value.documents.map((document: { flow: string }) => document.flow)).toEqual(['archive']);
    const refusal = { isError: true, text: 'There is no flow "sap" that you may see.' };
    expect(await server.ask('history', delivered)).toMatchObject(refusal);
    expect((await server.ask('status')).value.status.flows).toMatchObject([{ flow: 'archive' }]);
    expect(server.errors()).toBe('');
  });
});

test('with --allow-changes it pauses, resumes and replays, each by its author in the audit log', async () => {
  const server = await connect('--role', 'operator', '--allow-changes');
  const last = async () => (await readActions(db.database, 'bridge', { limit: 1 }))[0];
  const author = { who: { kind: 'cli', name: machineUser() }, from: hostname(), outcome: 'allowed' };
  const pausedBy = async (table: string) =>
    (await db.database.query<{ reason: string | null }>(`select paused_reason as reason from bridge.${table}`)).map(
      ({ reason }) => reason,
    );

  expect((await server.ask('pause', { flow: 'sap', reason: 'month end' })).value).toMatchObject({ paused: 'sap' });
  expect(await last()).toMatchObject({ ...author, what: 'flow.pause', details: { through: 'assistant' } });
  expect(await pausedBy(`flows where name = 'sap'`)).toEqual([`month end (${machineUser()})`]);
  await server.ask('resume', { flow: 'sap' });
  expect(await last()).toMatchObject({ ...author, what: 'flow.resume', details: { agreeToWithdrawals: false } });
  expect(await pausedBy(`flows where name = 'sap'`)).toEqual([null]);

  await server.ask('pause', { flow: 'vendors', reason: 'audit' });
  expect(await last()).toMatchObject({ ...author, what: 'intake.pause', object: 'intake vendors' });
  await server.ask('resume', { flow: 'vendors' });
  expect(await last()).toMatchObject({ ...author, what: 'intake.resume', details: { agreeToArchive: false } });

  expect((await server.ask('replay', refused)).value).toEqual({ replayed: 1 });
  expect(await last()).toMatchObject({ ...author, what: 'documents.replay', details: { key: refused.key } });
  expect(await server.ask('replay', { flow: 'sap' })).toMatchObject({ isError: true });
  const wrong = await server.ask('replay', { flow: 'sap', expected: 99 });
  expect([wrong.isError, wrong.text]).toEqual([true, expect.stringContaining('and not the 99 that were shown')]);
  expect(await last()).toMatchObject({ outcome: 'failed', what: 'documents.replay' });
  expect((await server.ask('replay', { flow: 'sap', expected: 5 })).value).toMatchObject({ total: 5 });
  expect((await server.ask('replay', { flow: 'vendors', key: 'K-7007' })).value).toEqual({ replayed: 1 });
  expect((await server.ask('pause', { flow: 'nope', reason: 'x' })).text).toContain('No flow "nope" is known');
});

test('standard output carries the protocol alone, also after what is no message; the end of standard input ends it', async () => {
  const child = spawn(node, [...own], { env: { ...env, LOG_LEVEL: 'debug' }, cwd: folder });
  const ended = once(child, 'close') as Promise<[number]>;
  closeAtEnd(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const out = createInterface(child.stdout).on('line', (line) => lines.push(line));
  child.stderr.resume();
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } };
  child.stdin.write('not a message\n{"jsonrpc":"2.0"}\n');
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
  while (!lines.some((line) => line.includes('"id":1'))) await once(out, 'line');
  child.stdin.end();
  expect((await ended)[0]).toBe(0);
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' });
});

test('changes need the role of an operator: exit code 2, and a sentence', async () => {
  const { code, stdout, stderr } = await runHere([...own.slice(1), '--allow-changes'], env);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toBe('--allow-changes needs --role operator: the role viewer changes nothing.\n');
});
