import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { pauseFlow, replayDocuments, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import type { Found, Operation, Outcome } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { errorText } from '#platform/errors.ts';
import { eventRecord, startProcess, type TestClock } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, event, keyOf, supplier } from './pusher.ts';

const suppliers = [0, 1, 2, 3, 4].map(supplier);

/** What happens to one operation: whether it takes effect, and which outcome the connector answers. */
const fate = fc.constantFrom<Fate>(
  'done',
  'done',
  'done',
  'done',
  'retry',
  'rejected',
  'rate-limited',
  'auth',
  'unknown, done',
  'unknown, done late',
  'unknown, not done',
);
type Fate =
  | 'done'
  | 'retry'
  | 'rejected'
  | 'rate-limited'
  | 'auth'
  | 'unknown, done'
  | 'unknown, done late'
  | 'unknown, not done';
const controls = ['pause', 'resume', 'replay all', 'replay dead', 'others register', 'register again'] as const;
type Control = (typeof controls)[number];
/** What happens to a whole call. */
const end = fc.constantFrom('answers', 'answers', 'answers', 'throws', 'loses an outcome');
/** Before which of its statements the process dies or freezes. */
const trouble = fc.option(
  fc.record({
    at: fc.integer({ min: 0, max: 25 }),
    how: fc.constantFrom<'dies' | 'freezes'>('dies', 'freezes'),
  }),
);

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      award: fc.array(fc.option(fc.integer({ min: 1, max: 9 })), {
        minLength: suppliers.length,
        maxLength: suppliers.length,
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ name: fc.constantFrom('Office chairs', 'Desks', 'Lamps') }) },
  {
    weight: 6,
    arbitrary: fc.record({
      fates: fc.array(fate, { minLength: 7, maxLength: 7 }),
      end,
      lookup: fc.constantFrom('answers', 'answers', 'answers', 'fails', 'returns an unreadable entry'),
      trouble,
      waitMs: fc.constantFrom(0, 2_000, 100_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ control: fc.constantFrom<Control>(...controls) }) },
);

interface Life {
  /** Called before each statement and after each commit; rejects when the process is dead. */
  step(where: 'outside' | 'in a transaction'): Promise<void>;
}

/** The database of a process that dies or freezes at some statement; what it has committed before stays. */
function mortal(database: Database, life: Life): Database {
  const watched = (sql: Sql, where: 'outside' | 'in a transaction'): Sql => ({
    query: async (statement, params) => {
      await life.step(where);
      return sql.query(statement, params);
    },
  });
  return {
    ...database,
    ...watched(database, 'outside'),
    session: (use) => database.session((session) => use(watched(session, 'outside'))),
    transaction: async (work) => {
      const result = await database.transaction(async (tx) => work(watched(tx, 'in a transaction')));
      // After the commit, before the process gets the answer.
      await life.step('outside');
      return result;
    },
  };
}

test('whatever changes, fails, dies or freezes, in the end the ERP holds what is wanted, each object once', {
  timeout: 300_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 16 }),
      fc.integer({ min: 1, max: 3 }),
      fc.constantFrom(0, 30_000),
      async (steps, concurrency, lateEffectMs) => {
        const pusher = await createPusher(suppliers.length, {
          documents: ['sourcing-event', 'award'],
          circuit: { failures: 4, seconds: 60 },
        });
        const { database } = pusher.db;
        const now = () => timestampNow(pusher.clock);
        const erp = createFakeErp({ kinds: ['sourcing-event', 'award'], batchMax: 2, concurrency, lateEffectMs });
        const { showing, applyLate, view, catchUp } = slowErp(erp, pusher.clock, lateEffectMs);
        const processes = [await startProcess(pusher.db), await startProcess(pusher.db)] as const;
        let stepsDone = 0;
        let plan: { at: number; how: 'dies' | 'freezes' } | null = null;
        let dead = false;
        const other = await pusher.worker(erp, { process: processes[1] });

        /** The process is frozen: time passes, and another process takes over. */
        const freeze = async () => {
          erp.forgetCalls();
          pusher.clock.advance(60_000);
          await database.query(`update bridge.leases set expires = now() - interval '1 s'`);
          await other.push().catch(errorText);
        };
        const life: Life = {
          step: async (where) => {
            if (dead) throw new Error('killed');
            stepsDone += 1;
            if (!plan || stepsDone < plan.at) return;
            if (plan.how === 'dies') {
              dead = true;
              throw new Error('killed');
            }
            // A process that freezes in a transaction keeps the lease's row locked: no other process takes over.
            if (where === 'in a transaction') return;
            plan = null;
            await freeze();
          },
        };
        const mortalErp = {
          ...erp,
          session: {
            ...erp.session,
            write: async (operations: readonly Operation[], signal: AbortSignal) => {
              if (dead) throw new Error('killed');
              return erp.session.write(operations, signal);
            },
          },
        };
        const worker = await pusher.worker(mortalErp, {
          process: processes[0],
          database: mortal(processes[0].database, life),
        });
        const run = async () => {
          stepsDone = 0;
          const ended = await worker.push().catch(errorText);
          expect([undefined, 'killed']).toContain(ended);
          dead = false;
          erp.forgetCalls();
        };

        let wanted: (number | null)[] = [];
        let name = 'Office chairs';
        for (const each of steps) {
          if ('award' in each) {
            wanted = each.award;
            await pusher.award(
              ...wanted.flatMap((cost, n) => (cost === null ? [] : [[n, String(cost)] as [number, string]])),
            );
          } else if ('name' in each) {
            name = each.name;
            await pusher.store('sourcing-events', eventRecord(event, suppliers, { name }));
          } else if ('control' in each) {
            if (each.control === 'pause') await pauseFlow(database, 'erp', 'lunch', now());
            else if (each.control === 'resume') await resumeFlow(database, 'erp', { agreeToWithdrawals: false }, now());
            else if (each.control === 'others register')
              await registerFlows(database, [{ ...pusher.flow, quantity_column: 'Volume' }], now());
            else if (each.control === 'register again') await registerFlows(database, [pusher.flow], now());
            else await replayDocuments(database, { flow: 'erp', dead: each.control === 'replay dead' }, now());
          } else {
            let place = 0;
            erp.onWrite = async (operations, apply) => {
              const outcomes = operations.map((one) =>
                outcomeOf(each.fates[place++ % 7] ?? 'done', one, {
                  apply: showing(apply),
                  applyLate: applyLate(apply),
                }),
              );
              if (each.end === 'throws') throw new Error('connection lost');
              return each.end === 'loses an outcome' ? outcomes.slice(1) : outcomes;
            };
            erp.onLookup = async (_documents, find) => {
              if (each.lookup === 'fails') throw new Error('no service');
              const [first, ...others] = view(find());
              const shownFirst = first && each.lookup !== 'answers' ? [{ ...first, reference: 7 as never }] : [first];
              return [...shownFirst, ...others].filter((one) => one !== undefined);
            };
            pusher.clock.advance(each.waitMs);
            plan = each.trouble;
            await run();
            plan = null;
          }
        }
        // The faults end: the ERP does what it is asked, an operator resumes the flow and replays what was refused.
        erp.onWrite = async (operations, apply) => operations.map(showing(apply));
        erp.onLookup = async (_documents, find) => view(find());
        await registerFlows(database, [pusher.flow], now());
        await resumeFlow(database, 'erp', { agreeToWithdrawals: false }, now());
        await replayDocuments(database, { flow: 'erp', dead: true }, now());
        for (let count = 0; count < 3; count += 1) {
          pusher.clock.advance(3_600_000);
          await run();
          await other.push();
        }
        catchUp();
        const expected = wanted.flatMap((cost, n) => (cost === null ? [] : [`award ${keyOf(n)} ${cost}`]));
        expect(
          erp
            .living()
            .map(({ kind, key, total }) => `${kind} ${key} ${total}`)
            .toSorted(),
        ).toEqual([...expected, `sourcing-event ${event} ${name}`].toSorted());
        expect(erp.faults).toEqual([]);
        const open = await database.query(
          `select from bridge.flow_documents
           where due is not null or intent_id is not null or waiting_since is not null or forced
             or uncertain_since is not null`,
        );
        expect(open).toEqual([]);
        for (const process of processes) {
          await process.liveness.close();
          await process.database.close();
        }
        await pusher.db.drop();
      },
    ),
    { numRuns: Number(process.env['RECONCILE_RUNS'] ?? 4), endOnFailure: true },
  );
});

/**
 * Makes the ERP slow: interrupted calls take effect after `lateEffectMs`, and lookups show objects after
 * `lateEffectMs`. With 0, both happen at once.
 */
function slowErp(erp: FakeErp, clock: TestClock, lateEffectMs: number) {
  const late: { atMs: number; run: () => void }[] = [];
  const states: { atMs: number; place: string; found: Found | undefined }[] = [];
  const note = ({ kind, key }: Document, atMs: number) => {
    const [held] = erp.living(key).filter((one) => one.kind === kind);
    const found = held && { key, reference: held.reference, contentHash: held.contentHash };
    states.push({ atMs, place: `${kind} ${key}`, found });
  };
  const catchUp = () => {
    const isDue = ({ atMs }: { atMs: number }) => atMs <= clock.nowMs();
    for (const one of late.filter(isDue)) one.run();
    late.splice(0, late.length, ...late.filter((one) => !isDue(one)));
  };
  const { session } = erp;
  const write = session.write.bind(session);
  const lookup = session.lookup.bind(session);
  Object.assign(session, {
    write: (operations: readonly Operation[], signal: AbortSignal) => {
      catchUp();
      return write(operations, signal);
    },
    lookup: (documents: readonly Document[], signal: AbortSignal) => {
      catchUp();
      return lookup(documents, signal);
    },
  });
  type Apply = (one: Operation) => Outcome;
  const showing = (apply: Apply) => (one: Operation) => {
    const outcome = apply(one);
    note(one.document, clock.nowMs());
    return outcome;
  };
  const applyLate = (apply: Apply) => (one: Operation) => {
    const atMs = clock.nowMs() + lateEffectMs;
    const run = () => {
      apply(one);
      note(one.document, atMs);
    };
    if (lateEffectMs === 0) run();
    else late.push({ atMs, run });
  };
  /** What a lookup shows: the state of `lateEffectMs` ago. */
  const view = (living: readonly Found[]) => {
    if (lateEffectMs === 0) return [...living];
    const shown = new Map<string, Found | undefined>();
    for (const { atMs, place, found } of states) if (atMs + lateEffectMs <= clock.nowMs()) shown.set(place, found);
    return [...shown.values()].filter((one) => one !== undefined);
  };
  return { showing, applyLate, view, catchUp };
}

function outcomeOf(
  fate: Fate,
  operation: Operation,
  { apply, applyLate }: { apply: (one: Operation) => Outcome; applyLate: (one: Operation) => void },
): Outcome {
  switch (fate) {
    case 'retry':
      return { status: 'retry', error: { type: 'transient', message: 'later' } };
    case 'rejected':
      return { status: 'rejected', error: { type: 'data', message: 'no' } };
    case 'rate-limited':
      return { status: 'retry', error: { type: 'rate-limited', message: 'slowly', retryAfterMs: 5_000 } };
    case 'auth':
      return { status: 'retry', error: { type: 'auth', message: 'who are you?' } };
    case 'unknown, not done':
      return { status: 'unknown', message: 'no answer' };
    case 'unknown, done late':
      applyLate(operation);
      return { status: 'unknown', message: 'no answer' };
    case 'unknown, done':
      apply(operation);
      return { status: 'unknown', message: 'no answer' };
    case 'done':
      return apply(operation);
    default:
      return fate satisfies never;
  }
}
