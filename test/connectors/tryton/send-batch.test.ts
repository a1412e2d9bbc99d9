/** What becomes of records that are sent together when Tryton refuses, or answers what cannot be. */
import { expect, test } from 'vitest';
import { ConnectorError, DataError, TransientError } from '#connector/errors.ts';
import { ServerFault } from '../../../connectors/tryton/rpc.ts';
import { runInHalves, sendBatch } from '../../../connectors/tryton/send-batch.ts';
import { never } from './tryton-session.ts';

const types = (results: readonly unknown[]) => results.map((one) => (one instanceof ConnectorError ? one.type : one));

/** Makes all of them or none, as Tryton does; `fault` says what comes before it, and what after. */
function standIn(fault: { before?: string; after?: boolean }) {
  const made: string[] = [];
  const send = async (some: readonly string[]) => {
    if (fault.before !== undefined && some.includes(fault.before)) throw new ServerFault('value too long');
    const ids = some.map((one) => made.push(one));
    if (fault.after) throw new ServerFault('no such queue');
    return ids;
  };
  const find = async (some: readonly string[]) =>
    some.map((one) => (made.includes(one) ? made.indexOf(one) + 1 : undefined));
  return { made, send, find };
}

test('a fault after the commit makes nothing twice: what is there is found, and not sent again in halves', async () => {
  const { made, send, find } = standIn({ after: true });
  expect(await sendBatch(['a', 'b', 'c'], send, { signal: never, findMade: find })).toEqual([1, 2, 3]);
  expect(made).toEqual(['a', 'b', 'c']);
});

test('a fault that one record brings about is that one’s alone', async () => {
  const { made, send, find } = standIn({ before: 'b' });
  expect(types(await sendBatch(['a', 'b', 'c', 'd'], send, { signal: never, findMade: find }))).toEqual([
    1,
    'data',
    2,
    3,
  ]);
  expect(made).toEqual(['a', 'c', 'd']);
});

test('when nobody can say what a fault has left, all of them are unknown, and none is sent again', async () => {
  const { made, send } = standIn({ after: true });
  const find = () => Promise.reject(new TransientError('no answer'));
  expect(types(await sendBatch(['a', 'b'], send, { signal: never, findMade: find }))).toEqual(['unknown', 'unknown']);
  expect(made).toEqual(['a', 'b']);
});

test('an answer for fewer records than were sent leaves all of them unknown', async () => {
  expect(types(await sendBatch(['a', 'b'], async () => [], { signal: never }))).toEqual(['unknown', 'unknown']);
  expect(types(await sendBatch(['a', 'b'], async () => [1], { signal: never }))).toEqual(['unknown', 'unknown']);
});

test('a refusal of all is told of all, and no half is sent after it', async () => {
  let sent = 0;
  const send = async (some: readonly string[]): Promise<never> => {
    sent += 1;
    throw some.length > 2 ? new DataError('one of them') : new TransientError('busy');
  };
  expect(types(await sendBatch(['a', 'b', 'c', 'd'], send, { signal: never }))).toEqual(Array(4).fill('transient'));
  expect(sent).toBe(2);
});

test('what cannot be asked of one is of that one alone; what hinders all is thrown; after a stop nothing is blamed', async () => {
  const asked: string[][] = [];
  const ask = async (some: readonly string[]) => {
    asked.push([...some]);
    if (some.includes('odd')) throw new ServerFault('surrogates not allowed');
    if (some.includes('away')) throw new TransientError('no answer');
    return some;
  };
  const types = (_: string, { type }: ConnectorError) => type;
  expect(await runInHalves(['a', 'odd', 'b'], ask, types, never)).toEqual(['a', 'data', 'b']);
  expect(asked).toEqual([['a', 'odd', 'b'], ['a', 'odd'], ['a'], ['odd'], ['b']]);
  await expect(runInHalves(['a', 'away'], ask, types, never)).rejects.toThrow('no answer');
  expect(await runInHalves(['a', 'odd'], ask, types, AbortSignal.abort())).toEqual(['transient', 'transient']);
});
