/** Sending many records in one call: what happens if Tryton refuses the call or answers something impossible. */
import { expect, test } from 'vitest';
import { ConnectorError, DataError, TransientError } from '#connector/errors.ts';
import { ServerFault } from '../../../connectors/tryton/rpc.ts';
import { sendBatch } from '../../../connectors/tryton/send-batch.ts';
import { never } from './tryton-session.ts';

const types = (results: readonly unknown[]) =>
  results.map((result) => (result instanceof ConnectorError ? result.type : result));

/**
 * Stands in for Tryton: creates all items or none. It fails before the commit if the item `fault.before` is among them,
 * and after the commit if `fault.after` is set.
 */
function fakeTryton(fault: { before?: string; after?: boolean }) {
  const created: string[] = [];
  const send = async (batch: readonly string[]) => {
    if (fault.before !== undefined && batch.includes(fault.before)) throw new ServerFault('value too long');
    const ids = batch.map((item) => created.push(item));
    if (fault.after) throw new ServerFault('no such queue');
    return ids;
  };
  const find = async (batch: readonly string[]) =>
    batch.map((item) => (created.includes(item) ? created.indexOf(item) + 1 : undefined));
  return { created, send, find };
}

test('after a fault that follows the commit, the created records are found and not sent again in halves', async () => {
  const { created, send, find } = fakeTryton({ after: true });
  expect(await sendBatch(['a', 'b', 'c'], send, { signal: never, findCreated: find })).toEqual([1, 2, 3]);
  expect(created).toEqual(['a', 'b', 'c']);
});

test('if one record causes a fault, only this record fails', async () => {
  const { created, send, find } = fakeTryton({ before: 'b' });
  expect(types(await sendBatch(['a', 'b', 'c', 'd'], send, { signal: never, findCreated: find }))).toEqual([
    1,
    'data',
    2,
    3,
  ]);
  expect(created).toEqual(['a', 'c', 'd']);
});

test('if it cannot be looked up what a fault has left, all records are unknown, and none is sent again', async () => {
  const { created, send } = fakeTryton({ after: true });
  const find = () => Promise.reject(new TransientError('no answer'));
  expect(types(await sendBatch(['a', 'b'], send, { signal: never, findCreated: find }))).toEqual([
    'unknown',
    'unknown',
  ]);
  expect(created).toEqual(['a', 'b']);
});

test('an answer for fewer records than were sent makes all of them unknown', async () => {
  expect(types(await sendBatch(['a', 'b'], async () => [], { signal: never }))).toEqual(['unknown', 'unknown']);
  expect(types(await sendBatch(['a', 'b'], async () => [1], { signal: never }))).toEqual(['unknown', 'unknown']);
});

test('an error that does not concern one record is the result of all records, and no other half is sent', async () => {
  let sent = 0;
  const send = async (batch: readonly string[]): Promise<never> => {
    sent += 1;
    throw batch.length > 2 ? new DataError('one of them') : new TransientError('busy');
  };
  expect(types(await sendBatch(['a', 'b', 'c', 'd'], send, { signal: never }))).toEqual(Array(4).fill('transient'));
  expect(sent).toBe(2);
});
