/**
 * Connectors that are broken, each in one way that a check of the conformance kit is there for: the reference connector
 * with one habit changed.
 */
import { z } from 'zod';
import type { Connector, ConnectorContext, Operation, Outcome, Session } from '#connector/connector.ts';
import type { AwardLine, DocumentKind } from '#connector/documents.ts';
import type { ReadPage } from '#connector/records.ts';
import { Secret } from '#connector/settings.ts';
import type { ConformanceTarget } from '#connector/testing/target.ts';

export interface Broken {
  /** The check that has to fail. */
  readonly fails: string;
  readonly because: string;
  /** A check that has to run before. */
  readonly before?: string;
  /** Quick checks that see it as well. */
  readonly beside?: readonly string[];
  /** It is seen by not ending in time. */
  readonly hangs?: boolean;
  readonly kind?: DocumentKind;
  readonly breaks: (target: ConformanceTarget) => ConformanceTarget;
}

const never = new AbortController().signal;

type Habit = (
  session: Session,
  given: { settings: { client_secret: Secret }; context: ConnectorContext },
) => Partial<Session>;

/** Changes what sessions do. */
function withSession(target: ConformanceTarget, habit: Habit): ConformanceTarget {
  const { connector } = target;
  const open: Connector['open'] = async (settings, context) => {
    const session = await connector.open(settings, context);
    return { ...session, ...habit(session, { settings: settings as { client_secret: Secret }, context }) };
  };
  return { ...target, connector: { ...connector, open } };
}

function withConnector(target: ConformanceTarget, changed: Partial<Connector>): ConformanceTarget {
  return { ...target, connector: { ...target.connector, ...changed } };
}

function withCapabilities(target: ConformanceTarget, changed: Partial<Connector['capabilities']>): ConformanceTarget {
  return withConnector(target, { capabilities: { ...target.connector.capabilities, ...changed } });
}

/** Changes outcomes, each with its operation. */
function withOutcomes(target: ConformanceTarget, change: (outcome: Outcome, operation: Operation) => Outcome) {
  return withSession(target, (session) => ({
    write: async (operations, signal) =>
      (await session.write(operations, signal)).map((outcome, index) =>
        change(outcome, operations[index] as Operation),
      ),
  }));
}

type Pages = AsyncIterable<ReadPage<never>>;

/** Changes what is read. */
function withRead(
  target: ConformanceTarget,
  change: (pages: Pages, signal: AbortSignal) => AsyncIterable<unknown>,
): ConformanceTarget {
  return withSession(target, (session) => ({
    read: ((stream, checkpoint, signal) =>
      change(session.read?.(stream, checkpoint, signal) as Pages, signal)) as NonNullable<Session['read']>,
  }));
}

async function allOf(pages: Pages): Promise<ReadPage<never>[]> {
  const all: ReadPage<never>[] = [];
  for await (const page of pages) all.push(page);
  return all;
}

function fingerprintOf({ connector }: ConformanceTarget): z.ZodRawShape {
  return (connector.settings as unknown as z.ZodObject).shape;
}

const rejected: Outcome = { status: 'rejected', error: { type: 'data', message: 'the ERP refuses it' } };
const loggedOut: Outcome = { status: 'retry', error: { type: 'auth', message: 'the login has expired' } };
const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
const stopped: Outcome = { status: 'unknown', message: 'stopped' };

export const brokenConnectors: readonly Broken[] = [
  {
    fails: 'settings',
    because: 'takes settings that nobody knows',
    breaks: (target) => withConnector(target, { settings: z.looseObject(fingerprintOf(target)) }),
  },
  {
    fails: 'secret settings',
    because: 'does not mark its secret',
    breaks: (target) => {
      const client_secret = z.string().transform((text) => new Secret(text));
      return withConnector(target, { settings: z.strictObject({ ...fingerprintOf(target), client_secret }) });
    },
  },
  {
    fails: 'check',
    because: 'says that all is well without saying what',
    breaks: (target) =>
      withSession(target, (session) => ({
        check: async () => (await session.check()).map((line) => (line.ok ? { ...line, message: '' } : line)),
      })),
  },
  {
    fails: 'ERP away',
    because: 'throws in check()',
    breaks: (target) =>
      withSession(target, (session) => ({
        check: async () => {
          const lines = await session.check();
          if (lines.some(({ ok }) => !ok)) throw new Error('fetch failed');
          return lines;
        },
      })),
  },
  {
    fails: 'same document twice',
    because: 'says that the ERP knows an idempotency key again, which it does not',
    breaks: (target) => withCapabilities(target, { idempotency: 'key' }),
  },
  {
    fails: 'versions',
    because: 'takes a version that it has sent before for one that is there',
    breaks: (target) =>
      withSession(target, (session) => {
        const sent = new Set<string>();
        return {
          write: async (operations, signal) => {
            const [first] = operations;
            if (operations.length === 1 && first?.action === 'amend' && sent.has(first.contentHash))
              return [{ status: 'unchanged', reference: first.reference ?? '' }];
            const outcomes = await session.write(operations, signal);
            for (const [index, { contentHash }] of operations.entries())
              if ('reference' in (outcomes[index] as Outcome)) sent.add(contentHash);
            return outcomes;
          },
        };
      }),
  },
  {
    fails: 'versions',
    because: 'leaves lines that are no longer in the document',
    kind: 'award',
    breaks: (target) =>
      withSession(target, (session) => {
        const written = new Map<string, AwardLine[]>();
        return {
          write: (operations, signal) =>
            session.write(
              operations.map((one) => {
                if (one.document.kind !== 'award' || one.action === 'cancel') return one;
                const { key, lines } = one.document;
                const left = [...lines, ...(written.get(key)?.slice(lines.length) ?? [])];
                written.set(key, left);
                return { ...one, document: { ...one.document, lines: left } };
              }),
              signal,
            ),
        };
      }),
  },
  {
    fails: 'references',
    because: 'calls an object by its revision',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: async (operations, signal) => {
          const plain = operations.map((one) => ({ ...one, reference: one.reference?.replace('/2', '') }));
          const outcomes = await session.write(plain, signal);
          return outcomes.map((one) => (one.status === 'updated' ? { ...one, reference: `${one.reference}/2` } : one));
        },
      })),
  },
  {
    fails: 'fidelity',
    because: 'takes markup out of a supplier’s name',
    kind: 'award',
    // So few that no other check comes to the name with markup.
    breaks: (target) =>
      withSession(withCapabilities(target, { batchMax: 3 }), (session) => ({
        write: (operations, signal) =>
          session.write(
            operations.map((one) => {
              if (!('supplier' in one.document) || !one.document.supplier) return one;
              const supplier = { ...one.document.supplier, name: one.document.supplier.name.replace(/<[^>]+>/, '') };
              return { ...one, document: { ...one.document, supplier } };
            }),
            signal,
          ),
      })),
  },
  {
    fails: 'fidelity',
    because: 'makes JavaScript numbers of amounts',
    kind: 'award',
    // Whoever writes many digits sees it.
    beside: ['withdrawal'],
    breaks: (target) =>
      withSession(target, (session) => ({
        write: (operations, signal) =>
          session.write(
            operations.map((one) => {
              if (one.document.kind !== 'award') return one;
              const lines = one.document.lines.map((line) => ({ ...line, cost: String(Number(line.cost)) }));
              return { ...one, document: { ...one.document, lines } };
            }),
            signal,
          ),
      })),
  },
  {
    fails: 'withdrawal',
    because: 'refuses to cancel what is cancelled',
    kind: 'award',
    breaks: (target) =>
      withSession(target, (session) => {
        const cancelled = new Set<string | undefined>();
        return {
          write: async (operations, signal) => {
            const [one] = operations;
            if (operations.length > 1 || one?.action !== 'cancel') return session.write(operations, signal);
            if (cancelled.has(one.reference)) return [rejected];
            cancelled.add(one.reference);
            return session.write(operations, signal);
          },
        };
      }),
  },
  {
    fails: 'lookup',
    because: 'does not tell capital letters in keys apart',
    breaks: (target) =>
      withSession(target, (session) => ({
        lookup: async (documents, signal) => {
          const found = await session.lookup(
            documents.map((one) => ({ ...one, key: one.key.toLowerCase() })),
            signal,
          );
          return documents.flatMap(({ key }) =>
            found.filter((one) => one.key === key.toLowerCase()).map((one) => ({ ...one, key })),
          );
        },
      })),
  },
  {
    fails: 'keys alike',
    because: 'takes a supplier for another whose key differs in capital letters',
    breaks: (target) =>
      withSession(target, (session) => {
        const references = new Map<string, string>();
        return {
          write: async (operations, signal) => {
            const outcomes = await session.write(
              operations.map((one): Operation => {
                const reference = references.get(one.document.key.toLowerCase());
                return one.action === 'create' && reference !== undefined
                  ? { ...one, action: 'amend', reference }
                  : one;
              }),
              signal,
            );
            for (const [index, { document, action }] of operations.entries()) {
              const outcome = outcomes[index];
              if (action === 'create' && outcome?.status === 'created')
                references.set(document.key.toLowerCase(), outcome.reference);
            }
            return outcomes;
          },
        };
      }),
  },
  {
    fails: 'plan',
    because: 'plans to change what is there already',
    breaks: (target) =>
      withSession(target, (session) => ({
        plan: async (operations, signal) =>
          ((await session.plan?.(operations, signal)) ?? []).map((one) =>
            one.action === 'none' ? { ...one, action: 'amend', steps: ['amend it'] } : one,
          ),
      })),
  },
  {
    fails: 'batch',
    because: 'answers long batches in another order',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: async (operations, signal) => {
          const outcomes = await session.write(operations, signal);
          return operations.length > 5 ? outcomes.toReversed() : outcomes;
        },
      })),
  },
  {
    fails: 'poisoned record',
    because: 'refuses the whole batch for one record',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: async (operations, signal) => {
          const isPoisoned = operations.some(({ document }) => 'name' in document && document.name.length > 200);
          return isPoisoned ? operations.map(() => rejected) : session.write(operations, signal);
        },
      })),
  },
  {
    fails: 'crash',
    because: 'knows only the keys that it has sent itself',
    breaks: (target) =>
      withSession(target, (session) => {
        const sent = new Set<string>();
        return {
          write: (operations, signal) => {
            for (const { document } of operations) sent.add(document.key);
            return session.write(operations, signal);
          },
          lookup: async (documents, signal) => {
            const known = documents.filter(({ key }) => sent.has(key));
            return session.lookup(known, signal);
          },
        };
      }),
  },
  {
    fails: 'lost answer',
    because: 'takes an answer that did not come for a request that was not sent',
    breaks: (target) =>
      withOutcomes(target, (outcome) =>
        outcome.status === 'unknown' && !outcome.message.includes('answered')
          ? { status: 'retry', error: { type: 'transient', message: outcome.message } }
          : outcome,
      ),
  },
  {
    fails: 'server errors',
    because: 'takes an error of the server for the record’s',
    breaks: (target) =>
      withOutcomes(target, (outcome) =>
        outcome.status === 'unknown' && outcome.message.includes('answered 5') ? rejected : outcome,
      ),
  },
  {
    fails: 'empty answers',
    because: 'takes an answer that says nothing for success',
    breaks: (target) =>
      withOutcomes(target, (outcome, { action, document }) =>
        outcome.status === 'unknown' ? { status: done[action], reference: document.key } : outcome,
      ),
  },
  {
    fails: 'rate limit',
    because: 'does not say for how long the ERP wants to be left alone',
    breaks: (target) =>
      withOutcomes(target, (outcome) => {
        if (outcome.status !== 'retry' || outcome.error.type !== 'rate-limited') return outcome;
        return { status: 'retry', error: { type: 'rate-limited', message: outcome.error.message } };
      }),
  },
  {
    fails: 'refused login',
    because: 'blames the record for a login that is refused',
    breaks: (target) =>
      withOutcomes(target, (outcome) => ('error' in outcome && outcome.error.type === 'auth' ? rejected : outcome)),
  },
  {
    fails: 'expired login',
    because: 'does not log in again',
    breaks: (target) => {
      let logins = 0;
      const expireLogin = async () => {
        logins += 1;
        await target.expireLogin?.();
      };
      return withSession({ ...target, expireLogin }, (session) => {
        const login = logins;
        return {
          write: async (operations, signal) =>
            login === logins ? session.write(operations, signal) : operations.map(() => loggedOut),
        };
      });
    },
  },
  {
    fails: 'cancellation',
    because: 'begins although it was told to stop',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: (operations, signal) => session.write(operations, signal.aborted ? never : signal),
      })),
  },
  {
    fails: 'cancellation',
    because: 'goes on waiting for the ERP when it is told to stop',
    hangs: true,
    breaks: (target) =>
      withSession(target, (session) => ({
        write: (operations, signal) => session.write(operations, signal.aborted ? signal : never),
      })),
  },
  {
    fails: 'cancellation',
    because: 'says of a lookup that was stopped that the ERP holds nothing',
    breaks: (target) =>
      withSession(target, (session) => ({
        lookup: (documents, signal) =>
          session.lookup(documents, signal).catch((error: unknown) => {
            if (signal.aborted) return [];
            throw error;
          }),
      })),
  },
  {
    fails: 'late effect',
    because: 'returns when it is told to stop, and goes on in the background',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: async (operations, signal) => {
          if (signal.aborted) return session.write(operations, signal);
          const { promise, resolve } = Promise.withResolvers<Outcome[]>();
          signal.addEventListener('abort', () => resolve(operations.map(() => stopped)), { once: true });
          return Promise.race([session.write(operations, never), promise]);
        },
      })),
  },
  {
    fails: 'close',
    because: 'leaves its connections open',
    breaks: (target) => withSession(target, () => ({ close: async () => undefined })),
  },
  {
    fails: 'close',
    because: 'asks the ERP once more before it closes',
    hangs: true,
    breaks: (target) =>
      withSession(target, (session) => ({
        close: async () => {
          await session.check();
          await session.close();
        },
      })),
  },
  {
    fails: 'requests at once',
    because: 'makes more requests at once than it says',
    breaks: (target) => withCapabilities(target, { requestsAtOnce: 2 }),
  },
  {
    fails: 'read',
    because: 'gives null for what is unknown',
    breaks: (target) =>
      withRead(target, async function* (pages) {
        for await (const page of pages)
          yield { ...page, records: page.records.map((record: object) => ({ ...record, contacts: null })) };
      }),
  },
  {
    fails: 'read',
    because: 'does not say that a supplier is archived',
    breaks: (target) =>
      withRead(target, async function* (pages) {
        for await (const page of pages)
          yield { ...page, records: page.records.map((record: object) => ({ ...record, archived: false })) };
      }),
  },
  {
    fails: 'read again',
    because: 'gives each page the checkpoint of the last one',
    breaks: (target) =>
      withRead(target, async function* (pages, signal) {
        const all = await allOf(pages);
        const checkpoint = all.at(-1)?.checkpoint ?? '';
        for (const page of all) if (!signal.aborted) yield { ...page, checkpoint };
      }),
  },
  {
    fails: 'stopped read',
    because: 'asks the ERP for everything before it gives a page, and then gives all of them',
    breaks: (target) =>
      withRead(target, async function* (pages) {
        yield* await allOf(pages);
      }),
  },
  {
    fails: 'stopped read',
    because: 'asks for the signal between its requests only',
    hangs: true,
    breaks: (target) =>
      withSession(target, (session) => ({
        read: async function* (stream, checkpoint, signal) {
          for await (const page of session.read?.(stream, checkpoint, never) ?? []) {
            if (signal.aborted) return;
            yield page;
          }
        },
      })),
  },
  {
    fails: 'secrets',
    because: 'logs what it logs in with',
    breaks: (target) =>
      withSession(target, (session, { settings, context }) => ({
        write: (operations, signal) => {
          const basic = Buffer.from(`bridge:${settings.client_secret.reveal()}`).toString('base64');
          context.log.debug('logging in', { header: basic });
          return session.write(operations, signal);
        },
      })),
  },
  {
    fails: 'secrets',
    because: 'logs an error that holds what it logs in with',
    breaks: (target) =>
      withSession(target, (session, { settings, context }) => ({
        write: (operations, signal) => {
          const cause = new Error(`POST /token ${settings.client_secret.reveal()}`);
          context.log.warn('logging in again', { err: new Error('the login has expired', { cause }) });
          return session.write(operations, signal);
        },
      })),
  },
  {
    fails: 'secrets',
    because: 'shows what it logs in with in a record that it reads',
    // What is read is searched with all else at the end.
    before: 'read again',
    breaks: (target) =>
      withSession(target, (session, { settings }) => ({
        read: async function* (stream, checkpoint, signal) {
          for await (const page of session.read?.(stream, checkpoint, signal) ?? []) {
            const fields = { link: `https://erp.example/?key=${encodeURIComponent(settings.client_secret.reveal())}` };
            yield { ...page, records: page.records.map((record) => ({ ...record, fields })) };
          }
        },
      })),
  },
];
