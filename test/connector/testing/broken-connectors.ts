/**
 * Broken connectors, each with one defect that a check of the conformance kit has to detect. Each is the reference
 * connector with one behaviour changed.
 */
import { z } from 'zod';
import type { Connector, ConnectorContext, Operation, Outcome, Session } from '#connector/connector.ts';
import type { AwardLine, DocumentKind } from '#connector/documents.ts';
import type { ReadField } from '#connector/read-back.ts';
import type { ReadPage } from '#connector/records.ts';
import { Secret } from '#connector/settings.ts';
import type { ConformanceTarget } from '#connector/testing/target.ts';

export interface Broken {
  /** The check that has to fail. */
  readonly fails: string;
  readonly because: string;
  /** A check that has to run before it. */
  readonly before?: string;
  /** The check fails because a call does not end in time. */
  readonly hangs?: boolean;
  readonly kind?: DocumentKind;
  readonly breaks: (target: ConformanceTarget) => ConformanceTarget;
}

const never = new AbortController().signal;

type SessionChange = (
  session: Session,
  given: { settings: { client_secret: Secret }; context: ConnectorContext },
) => Partial<Session>;

/** Replaces methods of sessions. */
function withSession(target: ConformanceTarget, change: SessionChange): ConformanceTarget {
  const { connector } = target;
  const open: Connector['open'] = async (settings, context) => {
    const session = await connector.open(settings, context);
    return { ...session, ...change(session, { settings: settings as { client_secret: Secret }, context }) };
  };
  return { ...target, connector: { ...connector, open } };
}

function withConnector(target: ConformanceTarget, changed: Partial<Connector>): ConformanceTarget {
  return { ...target, connector: { ...target.connector, ...changed } };
}

function withCapabilities(target: ConformanceTarget, changed: Partial<Connector['capabilities']>): ConformanceTarget {
  return withConnector(target, { capabilities: { ...target.connector.capabilities, ...changed } });
}

/** Changes outcomes; `change` also gets the operation. */
function withOutcomes(target: ConformanceTarget, change: (outcome: Outcome, operation: Operation) => Outcome) {
  return withSession(target, (session) => ({
    write: async (operations, signal) =>
      (await session.write(operations, signal)).map((outcome, index) =>
        change(outcome, operations[index] as Operation),
      ),
  }));
}

type Pages = AsyncIterable<ReadPage<never>>;

/** Changes the pages that are read. */
function withRead(
  target: ConformanceTarget,
  change: (pages: Pages, signal: AbortSignal) => AsyncIterable<unknown>,
): ConformanceTarget {
  return withSession(target, (session) => ({
    read: ((stream, checkpoint, signal) =>
      change(session.read?.(stream, checkpoint, signal) as Pages, signal)) as NonNullable<Session['read']>,
  }));
}

/** Replaces `acknowledge`. */
function withAcknowledge(
  target: ConformanceTarget,
  change: (session: Session) => NonNullable<Session['acknowledge']>,
): ConformanceTarget {
  return withSession(target, (session) => ({ acknowledge: change(session) }));
}

/** Replaces `readBack`. */
function withReadBack(
  target: ConformanceTarget,
  change: (session: Session) => NonNullable<Session['readBack']>,
): ConformanceTarget {
  return withSession(target, (session) => ({ readBack: change(session) }));
}

/** Changes the fields of held objects. */
function withFields(
  target: ConformanceTarget,
  change: (fields: readonly ReadField[]) => readonly ReadField[],
): ConformanceTarget {
  return withReadBack(
    target,
    (session) => async (given, signal) =>
      ((await session.readBack?.(given, signal)) ?? []).map((answer) =>
        answer.status === 'held' ? { ...answer, fields: change(answer.fields) } : answer,
      ),
  );
}

async function allOf(pages: Pages): Promise<ReadPage<never>[]> {
  const all: ReadPage<never>[] = [];
  for await (const page of pages) all.push(page);
  return all;
}

/** The members of the settings schema. */
function settingsOf({ connector }: ConformanceTarget): z.ZodRawShape {
  return (connector.settings as unknown as z.ZodObject).shape;
}

const rejected: Outcome = { status: 'rejected', error: { type: 'data', message: 'the ERP refuses it' } };
const loggedOut: Outcome = { status: 'retry', error: { type: 'auth', message: 'the login has expired' } };
const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
const stopped: Outcome = { status: 'unknown', message: 'stopped' };

export const brokenConnectors: readonly Broken[] = [
  {
    fails: 'settings',
    because: 'accepts unknown settings',
    breaks: (target) => withConnector(target, { settings: z.looseObject(settingsOf(target)) }),
  },
  {
    fails: 'secret settings',
    because: 'does not mark its secret',
    breaks: (target) => {
      const client_secret = z.string().transform((text) => new Secret(text));
      return withConnector(target, { settings: z.strictObject({ ...settingsOf(target), client_secret }) });
    },
  },
  {
    fails: 'check',
    because: 'reports that all is well without a sentence',
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
    because: 'declares that the ERP recognises an idempotency key, which it does not',
    breaks: (target) => withCapabilities(target, { idempotency: 'key' }),
  },
  {
    fails: 'versions',
    because: 'assumes that the ERP still holds a version that was sent before',
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
    because: 'keeps lines that are no longer in the document',
    kind: 'award',
    breaks: (target) =>
      withSession(target, (session) => {
        const written = new Map<string, AwardLine[]>();
        return {
          write: (operations, signal) =>
            session.write(
              operations.map((operation) => {
                const { document, action } = operation;
                if (document.kind !== 'award' || action === 'cancel') return operation;
                const { key, lines } = document;
                const kept = [...lines, ...(written.get(key)?.slice(lines.length) ?? [])];
                written.set(key, kept);
                return { ...operation, document: { ...document, lines: kept } };
              }),
              signal,
            ),
        };
      }),
  },
  {
    fails: 'references',
    because: 'puts its secret into the address of an object',
    breaks: (target) =>
      withConnector(target, {
        urlOf: (reference, settings) => {
          const { base_url, client_secret } = settings as { base_url: string; client_secret: Secret };
          return `${base_url}/objects/${reference}?key=${client_secret.reveal()}`;
        },
      }),
  },
  {
    fails: 'references',
    because: 'uses the revision in an object’s reference',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: async (operations, signal) => {
          const plain = operations.map((operation) => ({
            ...operation,
            reference: operation.reference?.replace('/2', ''),
          }));
          const outcomes = await session.write(plain, signal);
          return outcomes.map((outcome) =>
            outcome.status === 'updated' ? { ...outcome, reference: `${outcome.reference}/2` } : outcome,
          );
        },
      })),
  },
  {
    fails: 'fidelity',
    because: 'removes markup from a supplier’s name',
    kind: 'award',
    // With such small batches no other check uses the name with markup.
    breaks: (target) =>
      withSession(withCapabilities(target, { batchMax: 3 }), (session) => ({
        write: (operations, signal) =>
          session.write(
            operations.map((operation) => {
              const { document } = operation;
              if (!('supplier' in document) || !document.supplier) return operation;
              const supplier = { ...document.supplier, name: document.supplier.name.replace(/<[^>]+>/, '') };
              return { ...operation, document: { ...document, supplier } };
            }),
            signal,
          ),
      })),
  },
  {
    fails: 'fidelity',
    because: 'converts amounts to JavaScript numbers',
    kind: 'award',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: (operations, signal) =>
          session.write(
            operations.map((operation) => {
              const { document } = operation;
              if (document.kind !== 'award') return operation;
              const lines = document.lines.map((line) => ({ ...line, cost: String(Number(line.cost)) }));
              return { ...operation, document: { ...document, lines } };
            }),
            signal,
          ),
      })),
  },
  {
    fails: 'withdrawal',
    because: 'refuses to cancel a cancelled object',
    kind: 'award',
    breaks: (target) =>
      withSession(target, (session) => {
        const cancelled = new Set<string | undefined>();
        return {
          write: async (operations, signal) => {
            const [first] = operations;
            if (operations.length > 1 || first?.action !== 'cancel') return session.write(operations, signal);
            if (cancelled.has(first.reference)) return [rejected];
            cancelled.add(first.reference);
            return session.write(operations, signal);
          },
        };
      }),
  },
  {
    fails: 'lookup',
    because: 'ignores the case of keys in a lookup',
    breaks: (target) =>
      withSession(target, (session) => ({
        lookup: async (documents, signal) => {
          const found = await session.lookup(
            documents.map((document) => ({ ...document, key: document.key.toLowerCase() })),
            signal,
          );
          return documents.flatMap(({ key }) =>
            found.filter((entry) => entry.key === key.toLowerCase()).map((entry) => ({ ...entry, key })),
          );
        },
      })),
  },
  {
    fails: 'keys alike',
    because: 'takes a supplier for another one whose key differs in capital letters',
    breaks: (target) =>
      withSession(target, (session) => {
        const references = new Map<string, string>();
        return {
          write: async (operations, signal) => {
            const outcomes = await session.write(
              operations.map((operation): Operation => {
                const reference = references.get(operation.document.key.toLowerCase());
                return operation.action === 'create' && reference !== undefined
                  ? { ...operation, action: 'amend', reference }
                  : operation;
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
    because: 'plans to amend an object that is already as it should be',
    breaks: (target) =>
      withSession(target, (session) => ({
        plan: async (operations, signal) =>
          ((await session.plan?.(operations, signal)) ?? []).map((planned) =>
            planned.action === 'none' ? { ...planned, action: 'amend', steps: ['amend it'] } : planned,
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
    because: 'looks up only the keys that it has sent itself',
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
    because: 'takes a missing answer for a request that was not sent',
    breaks: (target) =>
      withOutcomes(target, (outcome) =>
        outcome.status === 'unknown' && !outcome.message.includes('answered')
          ? { status: 'retry', error: { type: 'transient', message: outcome.message } }
          : outcome,
      ),
  },
  {
    fails: 'server errors',
    because: 'blames the record for an error of the server',
    breaks: (target) =>
      withOutcomes(target, (outcome) =>
        outcome.status === 'unknown' && outcome.message.includes('answered 5') ? rejected : outcome,
      ),
  },
  {
    fails: 'server errors',
    because: 'takes an empty answer for success',
    breaks: (target) =>
      withOutcomes(target, (outcome, { action, document }) =>
        outcome.status === 'unknown' ? { status: done[action], reference: document.key } : outcome,
      ),
  },
  {
    fails: 'refused in the middle',
    because: 'takes the refusal of its second request for one of the document',
    kind: 'award',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: async (operations, signal) => {
          const outcomes = await session.write(operations, signal);
          const documents = operations.map(({ document }) => document);
          return session.lookup(documents, signal).then(
            () => outcomes,
            () => operations.map(() => rejected),
          );
        },
      })),
  },
  {
    fails: 'rate limit',
    because: 'does not pass on how long the ERP asks to wait',
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
    because: 'starts a write although its signal is aborted',
    breaks: (target) =>
      withSession(target, (session) => ({
        write: (operations, signal) => session.write(operations, signal.aborted ? never : signal),
      })),
  },
  {
    fails: 'cancellation',
    because: 'goes on waiting for the ERP after an abort',
    hangs: true,
    breaks: (target) =>
      withSession(target, (session) => ({
        write: (operations, signal) => session.write(operations, signal.aborted ? signal : never),
      })),
  },
  {
    fails: 'cancellation',
    because: 'claims after an aborted lookup that the ERP holds nothing',
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
    because: 'returns after an abort and goes on in the background',
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
    because: 'sends the ERP another request before it closes',
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
    because: 'makes more requests at once than it declares',
    breaks: (target) => withCapabilities(target, { requestsAtOnce: 2 }),
  },
  {
    fails: 'read',
    because: 'returns null for unknown values',
    breaks: (target) =>
      withRead(target, async function* (pages) {
        for await (const page of pages)
          yield { ...page, records: page.records.map((record: object) => ({ ...record, contacts: null })) };
      }),
  },
  {
    fails: 'read',
    because: 'does not show that a supplier is archived',
    breaks: (target) =>
      withRead(target, async function* (pages) {
        for await (const page of pages)
          yield { ...page, records: page.records.map((record: object) => ({ ...record, archived: false })) };
      }),
  },
  {
    fails: 'read again',
    because: 'gives each page the checkpoint of the last page',
    breaks: (target) =>
      withRead(target, async function* (pages, signal) {
        const all = await allOf(pages);
        const checkpoint = all.at(-1)?.checkpoint ?? '';
        for (const page of all) if (!signal.aborted) yield { ...page, checkpoint };
      }),
  },
  {
    fails: 'stopped read',
    because: 'reads everything before it returns the first page, and then returns all pages',
    breaks: (target) =>
      withRead(target, async function* (pages) {
        yield* await allOf(pages);
      }),
  },
  {
    fails: 'stopped read',
    because: 'checks the signal only between its requests',
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
    fails: 'open requisitions',
    because: 'lists only the first page',
    breaks: (target) =>
      withSession(target, (session) => ({
        openRequisitions: async function* (signal) {
          for await (const page of session.openRequisitions?.(signal) ?? []) {
            yield page;
            return;
          }
        },
      })),
  },
  {
    fails: 'open requisitions',
    because: 'lists what was deleted',
    breaks: (target) =>
      withSession(target, (session) => {
        const known = new Set<string>();
        return {
          openRequisitions: async function* (signal) {
            for await (const page of session.openRequisitions?.(signal) ?? [])
              for (const number of page) known.add(number);
            yield [...known];
          },
        };
      }),
  },
  {
    fails: 'open requisitions',
    because: 'declares that it lists them, and does not',
    breaks: (target) => withSession(target, () => ({ openRequisitions: undefined }) as unknown as Partial<Session>),
  },
  {
    fails: 'acknowledge',
    because: 'takes a requisition that the ERP does not have for told',
    breaks: (target) =>
      withAcknowledge(
        target,
        (session) => async (given, signal) =>
          ((await session.acknowledge?.(given, signal)) ?? []).map((outcome) =>
            outcome.status === 'rejected' ? { status: 'updated', reference: 'PR-1' } : outcome,
          ),
      ),
  },
  {
    fails: 'acknowledge',
    because: 'tells the ERP only the first news of a requisition',
    breaks: (target) =>
      withAcknowledge(target, (session) => {
        const told = new Set<string>();
        return async (given, signal) => {
          const isNew = given.map(({ requisition }) => !told.has(requisition));
          for (const { requisition } of given) told.add(requisition);
          const outcomes =
            (await session.acknowledge?.(
              given.filter((_, n) => isNew[n]),
              signal,
            )) ?? [];
          return given.map(({ requisition }, n) =>
            isNew[n] ? (outcomes.shift() as Outcome) : { status: 'unchanged', reference: requisition },
          );
        };
      }),
  },
  {
    fails: 'acknowledge',
    because: 'shows the news in what read() returns as the name',
    breaks: (target) => {
      let told = false;
      const acknowledging = withAcknowledge(target, (session) => async (given, signal) => {
        told = true;
        return (await session.acknowledge?.(given, signal)) ?? [];
      });
      return withSession(acknowledging, (session) => ({
        read: async function* (stream) {
          for await (const page of session.read?.(stream, undefined, never) ?? [])
            yield told ? { ...page, records: page.records.map((each) => ({ ...each, name: 'Sourcing' })) } : page;
        },
      }));
    },
  },
  {
    fails: 'acknowledge',
    because: 'declares that it acknowledges, and does not',
    breaks: (target) => withSession(target, () => ({ acknowledge: undefined }) as unknown as Partial<Session>),
  },
  {
    fails: 'acknowledge again',
    because: 'takes a request that was cut off for done',
    breaks: (target) =>
      withAcknowledge(
        target,
        (session) => async (given, signal) =>
          ((await session.acknowledge?.(given, signal)) ?? []).map((outcome) =>
            outcome.status === 'unknown' || outcome.status === 'retry'
              ? { status: 'updated', reference: 'PR-1' }
              : outcome,
          ),
      ),
  },
  {
    fails: 'read back',
    because: 'takes the expected values from the ERP',
    breaks: (target) => withFields(target, (fields) => fields.map((field) => ({ ...field, expected: field.held }))),
  },
  {
    fails: 'read back',
    because: 'compares the first lines only',
    kind: 'award',
    breaks: (target) => withFields(target, (fields) => fields.slice(0, 14)),
  },
  {
    fails: 'read back',
    because: 'takes another spelling of the same number for a change',
    kind: 'award',
    breaks: (target) =>
      withFields(target, (fields) =>
        fields.map((field) => ({ ...field, held: field.name.endsWith('.price') ? `${field.held}0` : field.held })),
      ),
  },
  {
    fails: 'read back',
    because: 'takes a cancelled order for one that is held',
    kind: 'award',
    breaks: (target) =>
      withReadBack(
        target,
        (session) => async (given, signal) =>
          ((await session.readBack?.(given, signal)) ?? []).map((answer) =>
            answer.status === 'cancelled'
              ? { ...answer, status: 'held', fields: [{ name: 'title', expected: 'a', held: 'a' }] }
              : answer,
          ),
      ),
  },
  {
    fails: 'read back',
    because: 'leaves out what it did not find',
    breaks: (target) =>
      withReadBack(
        target,
        (session) => async (given, signal) =>
          ((await session.readBack?.(given, signal)) ?? []).filter(({ status }) => status !== 'missing'),
      ),
  },
  {
    fails: 'read back',
    because: 'writes the document again before it reads',
    breaks: (target) =>
      withReadBack(target, (session) => async (given, signal) => {
        await session.write(
          given.flatMap(({ document, reference }) =>
            reference === undefined
              ? []
              : [{ action: 'amend', document, reference, contentHash: '0'.repeat(64), idempotencyKey: reference }],
          ),
          signal,
        );
        return (await session.readBack?.(given, signal)) ?? [];
      }),
  },
  {
    fails: 'read back',
    because: 'declares kinds that it reads back, and has no readBack()',
    breaks: (target) => withSession(target, () => ({ readBack: undefined }) as unknown as Partial<Session>),
  },
  {
    fails: 'read back cut off',
    because: 'takes an object that it could not read for missing',
    breaks: (target) =>
      withReadBack(
        target,
        (session) => async (given, signal) =>
          (await session.readBack?.(given, signal).catch(() => undefined)) ??
          given.map(({ document: { key } }) => ({ key, status: 'missing' })),
      ),
  },
  {
    fails: 'read back cut off',
    because: 'goes on reading after an abort',
    hangs: true,
    breaks: (target) =>
      withReadBack(target, (session) => async (given) => (await session.readBack?.(given, never)) ?? []),
  },
  {
    fails: 'read back cut off',
    because: 'does not pass on that the ERP limits the rate',
    breaks: (target) =>
      withReadBack(
        target,
        (session) => async (given, signal) =>
          (await session
            .readBack?.(given, signal)
            .catch((error: unknown) => String(error))
            .then((answers) =>
              typeof answers === 'string'
                ? given.map(({ document: { key } }) => ({ key, status: 'unclear' as const, reason: answers }))
                : answers,
            )) ?? [],
      ),
  },
  {
    fails: 'secrets',
    because: 'logs its credentials',
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
    because: 'logs an error whose cause has its credentials',
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
    because: 'puts its credentials into a record that it reads',
    // The records that this check reads are reported by the last check.
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
