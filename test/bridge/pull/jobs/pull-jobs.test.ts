/** Jobs that a notification or an intake has named, read one by one; the source is played by a function. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { documentHash, makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { nameOwnJob, pruneJobs, readUnreadJobs } from '#bridge/mirror/jobs-to-read.ts';
import { createJobPull } from '#bridge/pull/jobs/pull-jobs.ts';
import { storeNotifications } from '#bridge/receive/store-notifications.ts';
import { AnswerError } from '#client/read-answer.ts';
import type { CallApi } from '#client/send-call.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { flowOf, idOf, startProcess, type TestClock, type TestProcess, testClock } from '../../parts.ts';

const job = idOf(7);
const flow = flowOf({ documents: ['job'] });
const unstopped = new AbortController().signal;

let db: TestDatabase;
let clock: TestClock;
/** The jobs of the source by id; an error is its answer. */
let jobs: Map<string, object | Error>;
let asked: string[];
/** Called before each answer. */
let onAsk: () => void | Promise<void>;

beforeEach(async () => {
  db = await createTestDatabase();
  clock = testClock();
  jobs = new Map();
  asked = [];
  onAsk = () => undefined;
  await registerFlows(db.database, [flow], timestampNow(clock));
  return () => db.drop();
});

const call: CallApi = async ({ path }, schema: z.ZodType) => {
  const id = path.split('/').at(-1) ?? '';
  asked.push(id);
  await onAsk();
  const held = jobs.get(id) ?? answered(404, 'not-found', 'There is no such job.');
  if (held instanceof Error) throw held;
  return schema.parse({ id, ...held }) as never;
};

function answered(status: number, code: 'not-found' | 'forbidden' | 'unavailable', text: string) {
  const recovery = status >= 500 ? ({ do: 'retry' } as const) : ({ do: 'halt' } as const);
  return new AnswerError(status, code, text, { recovery });
}

function pullOf({ database, acquireLease }: Pick<TestProcess, 'database' | 'acquireLease'>) {
  const log = silentLogger;
  const pull = createJobPull({
    source: { name: 'main' },
    client: { call },
    database,
    acquireLease,
    clock,
    log,
    wakeFlows: () => undefined,
  });
  return () => pull(unstopped);
}

/** A notification of the job is stored. */
const notify = (id = job) =>
  storeNotifications(db.database, [
    {
      source: 'main',
      trigger: 'JOB_UPDATED',
      feed: undefined,
      job: id,
      body: Buffer.from('{}'),
      receivedMs: clock.nowMs(),
    },
  ]);
const row = async (id = job) =>
  (
    await db.database.query<{ next_look: string | null; ended: string | null; last_error: string | null }>(
      'select next_look, ended, last_error from bridge.jobs where job = $1',
      [id],
    )
  )[0];
/** How often the document was marked; undefined: never. */
const marks = async () =>
  (await db.database.query<{ wanted: number }>(`select wanted from bridge.flow_documents where kind = 'job'`))[0]
    ?.wanted;
const document = async () => {
  const made = (await makeDocuments(db.database, flow, [{ kind: 'job', key: job }])).get(`job ${job}`);
  return made?.made === 'document' ? made.document : made?.made;
};

const completed = { type: 'CREATE_SOURCING_EVENT', status: 'COMPLETED', created_entity: idOf(8) };

describe('a job that a notification has named', () => {
  test('is read at once, and once: its document says what became of it', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, { ...completed, created: '2030-01-01T00:00:00.000000Z' });
    await notify();
    await pull();
    expect(await document()).toEqual({
      kind: 'job',
      key: job,
      type: 'CREATE_SOURCING_EVENT',
      status: 'COMPLETED',
      created: '2030-01-01T00:00:00.000000Z',
      created_entity: idOf(8),
      errors: [],
    });
    clock.advance(86_400_000);
    await pull();
    expect(asked).toEqual([job]);
    expect(await row()).toEqual({ next_look: null, ended: 'COMPLETED', last_error: null });
  });

  test('twice has one document, with the same content', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, completed);
    await notify();
    await pull();
    const before = await document();
    await notify();
    await pull();
    expect(asked).toEqual([job, job]);
    const after = await document();
    expect([after, before].map((made) => documentHash(made as never))).toEqual(
      Array(2).fill(documentHash(before as never)),
    );
  });

  test('is read until it has ended, less and less often', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, { type: 'UPDATE_SOURCING_EVENT', status: 'PENDING' });
    await notify();
    await pull();
    expect(await document()).toMatchObject({ status: 'PENDING' });
    for (let seconds = 0; seconds < 3_600; seconds += 1) {
      clock.advance(1_000);
      await pull();
    }
    expect(asked.length).toBeGreaterThan(8);
    expect(asked.length).toBeLessThan(16);
    jobs.set(job, { type: 'UPDATE_SOURCING_EVENT', status: 'FAILED', errors: [{ path: 'name', message: 'is taken' }] });
    clock.advance(20 * 60_000);
    await pull();
    expect(await document()).toMatchObject({ status: 'FAILED', errors: [{ path: 'name', message: 'is taken' }] });
    expect(await row()).toMatchObject({ ended: 'FAILED' });
  });

  test('and has a status that is no known end is left alone after a week, and delivered as it is', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, { type: 'X', status: 'WITHDRAWN' });
    await notify();
    await pull();
    clock.advance(8 * 86_400_000);
    await pull();
    expect(await row()).toMatchObject({ ended: 'WITHDRAWN', next_look: null });
    expect(await document()).toMatchObject({ status: 'WITHDRAWN' });
  });

  test('and is named again while it is being read is read once more', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, { type: 'X', status: 'PENDING' });
    await notify();
    onAsk = async () => {
      onAsk = () => undefined;
      await notify();
    };
    await pull();
    expect(asked).toEqual([job, job]);
  });

  test('keeps no links to files: they are secrets for a minute, and other ones in each answer', async () => {
    const pull = pullOf(await startProcess(db));
    const link = 'https://files.example/secret';
    const detail = {
      data: [{ file_name: 'a', download_url: link }],
      files: [{ file_name: 'b', upload_url: link }],
      errors: [],
    };
    jobs.set(job, { type: 'ATTACH_FILES_TO_SOURCING_EVENT', status: 'RUNNING', detail });
    await notify();
    await pull();
    const [stored] = await db.database.query<{ body: string }>(`select body from bridge.resources where kind = 'job'`);
    expect(JSON.parse(stored?.body ?? '')).toEqual({
      id: job,
      type: 'ATTACH_FILES_TO_SOURCING_EVENT',
      status: 'RUNNING',
      detail: { errors: [] },
    });
  });

  test('of a process that loses its lease during the read is read by another one, which alone writes', async () => {
    jobs.set(job, completed);
    await notify();
    const first = await startProcess(db);
    const second = await startProcess(db);
    let written: number | undefined;
    onAsk = async () => {
      onAsk = () => undefined;
      await first.die();
      await pullOf(second)();
      written = await marks();
    };
    await pullOf(first)();
    expect(asked).toEqual([job, job]);
    expect(await row()).toMatchObject({ ended: 'COMPLETED' });
    expect(written).toBeGreaterThan(0);
    expect(await marks()).toBe(written);
  });

  test('of a process that dies between the job and its end is read by the next one: both are one transaction', async () => {
    jobs.set(job, completed);
    await notify();
    const first = await startProcess(db);
    const dying: Database = {
      ...first.database,
      transaction: (work) =>
        first.database.transaction((tx) =>
          work({
            ...tx,
            query: async (statement, params) => {
              const isEnd = typeof statement === 'string' && statement.startsWith('update bridge.jobs set looks');
              if (isEnd) await first.die();
              return tx.query(statement, params);
            },
          }),
        ),
    };
    const acquireLease = createLeases({ database: dying, liveness: first.liveness });
    await expect(pullOf({ database: dying, acquireLease })()).rejects.toMatchObject({ code: 'unavailable' });
    expect([await marks(), await document(), (await row())?.ended]).toEqual([undefined, 'not-yet', null]);
    await pullOf(await startProcess(db))();
    expect(await document()).toMatchObject({ status: 'COMPLETED' });
  });
});

describe('a job that cannot be read', () => {
  test('as the source does not know it ends, and is told of for a day', async () => {
    const pull = pullOf(await startProcess(db));
    await notify();
    await pull();
    expect(await row()).toMatchObject({ next_look: null, ended: 'not found' });
    const unread = () => readUnreadJobs(db.database, timestampNow(clock));
    expect(await unread()).toMatchObject([{ source: 'main', jobs: 1, unknown: 1, why: expect.stringContaining(job) }]);
    clock.advance(25 * 3_600_000);
    expect(await unread()).toEqual([]);
  });

  test('as the API key may not is told of with what to do, and read when it may', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, answered(403, 'forbidden', 'Needs the scope jobs.'));
    await notify();
    for (let tries = 0; tries < 3; tries += 1) {
      await pull();
      clock.advance(60_000);
    }
    expect(await readUnreadJobs(db.database, timestampNow(clock))).toMatchObject([
      { jobs: 1, unknown: 0, why: expect.stringContaining('give it the scope "jobs"') },
    ]);
    jobs.set(job, completed);
    clock.advance(60_000);
    await pull();
    expect(await readUnreadJobs(db.database, timestampNow(clock))).toEqual([]);
    expect(await document()).toMatchObject({ status: 'COMPLETED' });
  });

  test('as the source fails lets the others be read half a minute later, and is tried again itself', async () => {
    const pull = pullOf(await startProcess(db));
    const other = idOf(9);
    jobs.set(job, answered(500, 'unavailable', 'Out of order.'));
    jobs.set(other, completed);
    await notify();
    await notify(other);
    await pull();
    expect(asked).toEqual([job]);
    clock.advance(30_000);
    await pull();
    expect(asked).toEqual([job, other]);
    expect(await row(other)).toMatchObject({ ended: 'COMPLETED' });
    jobs.set(job, completed);
    clock.advance(60_000);
    await pull();
    expect(await row()).toMatchObject({ ended: 'COMPLETED', last_error: null });
  });
});

describe('a job that an intake has sent', () => {
  const nameOwn = (dueMs: number) =>
    nameOwnJob(
      db.database,
      { source: 'main', job, reference: 'PR-7' },
      { now: timestampNow(clock), due: timestampFromMs(clock.nowMs() + dueMs) },
    );

  test('is read without a notification, and its document names the reference', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, completed);
    await nameOwn(60_000);
    await pull();
    expect(asked).toEqual([]);
    clock.advance(60_000);
    await pull();
    expect(await document()).toMatchObject({ status: 'COMPLETED', reference_id: 'PR-7' });
  });

  test('is not read once more when the intake sees its end, too', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, completed);
    await nameOwn(60_000);
    await notify();
    await pull();
    await nameOwn(0);
    await pull();
    expect(asked).toEqual([job]);
  });

  test('gets its reference also where the notification came before the answer to its POST', async () => {
    const pull = pullOf(await startProcess(db));
    jobs.set(job, completed);
    await notify();
    await pull();
    expect(await document()).not.toHaveProperty('reference_id');
    const before = await marks();
    await nameOwn(60_000);
    clock.advance(60_000);
    await pull();
    expect(await document()).toMatchObject({ reference_id: 'PR-7' });
    expect(await marks()).not.toBe(before);
  });
});

test('what no flow takes is forgotten with the notifications, unless an intake has sent it', async () => {
  await registerFlows(db.database, [{ ...flow, documents: ['award'] }], timestampNow(clock));
  await notify();
  const own = { source: 'main', job: idOf(9), reference: 'PR-7' };
  await nameOwnJob(db.database, own, { now: timestampNow(clock), due: timestampNow(clock) });
  clock.advance(8 * 86_400_000);
  const kept = () => db.database.query<{ job: string }>('select job from bridge.jobs order by job');
  await pruneJobs(db.database, timestampNow(clock), 9);
  expect(await kept()).toHaveLength(2);
  await pruneJobs(db.database, timestampNow(clock), 7);
  expect(await kept()).toEqual([{ job: idOf(9) }]);
});

test('a flow that begins to take jobs gets those that were read for another one, and those that were named before', async () => {
  const pull = pullOf(await startProcess(db));
  jobs.set(job, completed);
  await notify();
  await pull();
  const second = flowOf({ name: 'second', documents: ['job'] });
  await registerFlows(db.database, [flow, second], timestampNow(clock));
  const rows = await db.database.query(`select flow, key from bridge.flow_documents order by flow`);
  expect(rows).toEqual([
    { flow: 'erp', key: job },
    { flow: 'second', key: job },
  ]);
});
