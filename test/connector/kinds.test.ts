/** The skeleton of a connector of several kinds: what becomes of a batch in which something is at fault. */
import { expect, test } from 'vitest';
import type { Operation } from '#connector/connector.ts';
import type { DocumentOf } from '#connector/documents.ts';
import {
  AuthError,
  ConfigError,
  ConflictError,
  type ConnectorError,
  DataError,
  TransientError,
} from '#connector/errors.ts';
import { decide, type Kind, newTask, runInHalves, sendEach, sessionOf } from '#connector/kinds.ts';

const never = new AbortController().signal;
const typeOf = (_: string, { type }: ConnectorError) => type;

test('an error of one record is that record’s result; any other error is thrown; after a stop, all records are to be retried', async () => {
  const runs: string[][] = [];
  const run = async (batch: readonly string[]) => {
    runs.push([...batch]);
    if (batch.includes('odd')) throw new DataError('surrogates not allowed');
    if (batch.includes('away')) throw new TransientError('no answer');
    return batch;
  };
  expect(await runInHalves(['a', 'odd', 'b'], run, typeOf, never)).toEqual(['a', 'data', 'b']);
  expect(runs).toEqual([['a', 'odd', 'b'], ['a', 'odd'], ['a'], ['odd'], ['b']]);
  await expect(runInHalves(['a', 'away'], run, typeOf, never)).rejects.toThrow('no answer');
  expect(await runInHalves(['a', 'odd'], run, typeOf, AbortSignal.abort())).toEqual(['transient', 'transient']);
});

const operationOf = (key: string, action: 'create' | 'cancel' = 'create'): Operation<'supplier'> => ({
  action,
  document: { kind: 'supplier', key, name: key, attributes: [], contacts: [] } satisfies DocumentOf<'supplier'>,
  contentHash: key,
  idempotencyKey: key,
  reference: undefined,
});

/** An ERP whose suppliers are at fault by their keys. */
function sessionWith(sent: string[]) {
  const readable = (documents: readonly { key: string }[]) => {
    if (documents.some(({ key }) => key === 'away')) throw new TransientError('no answer');
    if (documents.some(({ key }) => key === 'odd')) throw new DataError('surrogates not allowed');
  };
  const supplier: Kind<'supplier'> = {
    plan: async (operations) => {
      readable(operations.map(({ document }) => document));
      const tasks = operations.map((operation) =>
        decide(newTask(operation), (task) => {
          if (operation.document.key === 'changed') throw new ConflictError('a person has changed it');
          task.action = operation.action;
          task.steps.push(`writes ${operation.document.key}`);
        }),
      );
      const send = async () => {
        for (const task of tasks.filter(({ error }) => error === undefined)) {
          const { key } = task.operation.document;
          sent.push(key);
          if (key === 'refused') task.error = new DataError('the name is too long');
          else task.reference = `party,${key}`;
        }
      };
      return { tasks, send };
    },
    lookup: async (documents) => {
      readable(documents);
      return documents.map(({ key }) => ({ key, reference: `party,${key}`, contentHash: undefined }));
    },
  };
  return sessionOf({ supplier });
}

test('each operation has its own outcome; what cannot be planned alone is not sent, and holds no other up', async () => {
  const sent: string[] = [];
  const session = sessionWith(sent);
  const operations = ['a', 'odd', 'changed', 'refused', 'b'].map((key) => operationOf(key));
  expect(await session.write(operations, never)).toEqual([
    { status: 'created', reference: 'party,a' },
    { status: 'rejected', error: { type: 'data', message: 'surrogates not allowed' } },
    { status: 'rejected', error: { type: 'conflict', message: 'a person has changed it' } },
    { status: 'rejected', error: { type: 'data', message: 'the name is too long' } },
    { status: 'created', reference: 'party,b' },
  ]);
  expect(sent).toEqual(['a', 'refused', 'b']);
  expect(await session.plan(operations.slice(0, 3), never)).toEqual([
    { key: 'a', action: 'create', steps: ['writes a'] },
    { key: 'odd', action: 'create', steps: ['surrogates not allowed'] },
    { key: 'changed', action: 'create', steps: ['a person has changed it'] },
  ]);
});

test('an ERP that cannot be read before anything is sent is tried again for all of them', async () => {
  const sent: string[] = [];
  const session = sessionWith(sent);
  const away = { status: 'retry', error: { type: 'transient', message: 'no answer' } };
  expect(await session.write([operationOf('a'), operationOf('away')], never)).toEqual([away, away]);
  await expect(session.plan([operationOf('away')], never)).rejects.toThrow('no answer');
  expect(sent).toEqual([]);
});

test('a cancellation of what was never there is done, under the document’s key', async () => {
  const kind: Kind<'supplier'> = {
    plan: async (operations) => ({ tasks: operations.map(newTask), send: async () => undefined }),
    lookup: async () => [],
  };
  const session = sessionOf({ supplier: kind });
  expect(await session.write([operationOf('a', 'cancel')], never)).toEqual([{ status: 'cancelled', reference: 'a' }]);
  expect(await session.write([operationOf('a')], never)).toEqual([{ status: 'unchanged', reference: '' }]);
});

test('a document that cannot be looked up is unclear, and the others are found; a kind that is not read back says so', async () => {
  const session = sessionWith([]);
  const documents = ['a', 'odd', 'b'].map((key) => operationOf(key).document);
  expect(await session.lookup(documents, never)).toEqual([
    { key: 'a', reference: 'party,a', contentHash: undefined },
    { key: 'odd', unclear: 'surrogates not allowed' },
    { key: 'b', reference: 'party,b', contentHash: undefined },
  ]);
  await expect(session.readBack([{ document: documents[0]!, reference: 'party,a' }] as never, never)).rejects.toThrow(
    ConfigError,
  );
});

test('a task that the ERP refuses fails alone; after a refused login, or a stop, the others are not sent', async () => {
  const failing = { odd: new DataError('too long'), out: new AuthError('wrong password') };
  const sent: string[] = [];
  const sendAll = async (keys: readonly string[], signal = never) => {
    sent.length = 0;
    const tasks = keys.map((key) => newTask(operationOf(key)));
    const send = async ({ operation: { document } }: (typeof tasks)[number]) => {
      sent.push(document.key);
      const error = failing[document.key as keyof typeof failing];
      if (error !== undefined) throw error;
    };
    await sendEach(tasks, send, { signal, atOnce: 1 });
    return tasks.map(({ error }) => error?.type);
  };
  expect(await sendAll(['odd', 'a'])).toEqual(['data', undefined]);
  expect(await sendAll(['a', 'out', 'b'])).toEqual([undefined, 'auth', 'auth']);
  expect(sent).toEqual(['a', 'out']);
  expect(await sendAll(['a'], AbortSignal.abort())).toEqual(['transient']);
  expect(sent).toEqual([]);
});

test('a task that is refused after its object was made, or after a step, is partial; those that its error meets are not', async () => {
  const out = new AuthError('wrong password');
  out.partial = true;
  const kind: Kind<'supplier'> = {
    plan: async (operations) => {
      const tasks = operations.map((operation) => ({ ...newTask(operation), action: operation.action }));
      const send = async () => {
        const [made, stepped, ...others] = tasks;
        if (!made || !stepped) throw new Error('two are expected');
        Object.assign(made, { reference: 'party,1', error: new DataError('not confirmed') });
        Object.assign(stepped, { isBegun: true, error: new DataError('not confirmed') });
        await sendEach(others, async () => Promise.reject(out), { signal: never, atOnce: 1 });
      };
      return { tasks, send };
    },
    lookup: async () => [],
  };
  const operations = ['made', 'stepped', 'out', 'next'].map((key) => operationOf(key));
  const refused = { status: 'rejected', error: { type: 'data', message: 'not confirmed' }, partial: true };
  const loggedOut = { status: 'retry', error: { type: 'auth', message: 'wrong password' } };
  expect(await sessionOf({ supplier: kind }).write(operations, never)).toEqual([
    refused,
    refused,
    { ...loggedOut, partial: true },
    loggedOut,
  ]);
});
