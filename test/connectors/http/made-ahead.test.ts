import { expect, test } from 'vitest';
import { madeAhead } from '../../../connectors/http/made-ahead.ts';

const round = () => new Promise(setImmediate);

test('makes one further item for each that is under way, and each only once', async () => {
  const asked: string[] = [];
  const ahead = madeAhead(['a', 'b', 'c', 'd'], (item) => {
    asked.push(item);
    return item.toUpperCase();
  });
  expect([ahead.take('a'), ahead.take('b')]).toEqual([undefined, undefined]);
  ahead.makeNext();
  ahead.makeNext();
  expect(asked).toEqual([]);
  await round();
  expect(asked).toEqual(['c', 'd']);
  expect(ahead.take('c')).toBe('C');
  ahead.makeNext();
  await round();
  expect(ahead.take('d')).toBe('D');
  ahead.makeNext();
  await round();
  expect(asked).toEqual(['c', 'd']);
});

test('leaves an item that cannot be made, or whose promise is rejected, to its turn', async () => {
  const ahead = madeAhead<string, string | Promise<string>>(['a', 'b', 'c', 'd'], (item) => {
    if (item === 'b') throw new Error('b cannot be made');
    return item === 'c' ? Promise.reject(new Error('c cannot be made')) : item;
  });
  expect(ahead.take('a')).toBeUndefined();
  for (let times = 0; times < 3; times += 1) ahead.makeNext();
  await round();
  await round();
  expect(ahead.take('b')).toBeUndefined();
  await expect(ahead.take('c')).rejects.toThrow('c cannot be made');
  expect(ahead.take('d')).toBe('d');
});
