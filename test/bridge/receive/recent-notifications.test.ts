import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { createRecentNotifications } from '#bridge/receive/recent-notifications.ts';

const signatureOf = (text: string) => createHash('sha256').update(text).digest();
const turn = () => new Promise(setImmediate);

test('a notification is stored once, however often it comes, and each time its outcome is that of the first', async () => {
  const recent = createRecentNotifications(10);
  const writing = Promise.withResolvers<void>();
  let stores = 0;
  const store = () => {
    stores += 1;
    return writing.promise;
  };
  const signature = signatureOf('one');
  const first = recent.storeOnce(signature, store);
  const second = recent.storeOnce(Buffer.from(signature), store);
  expect(stores).toBe(1);
  let acknowledged = false;
  void second.then(() => {
    acknowledged = true;
  });
  await turn();
  expect(acknowledged, 'not before it is stored').toBe(false);
  writing.resolve();
  expect(await Promise.all([first, second])).toEqual([true, false]);
  expect([await recent.storeOnce(signature, store), stores]).toEqual([false, 1]);
});

test('a failed one is stored when it comes again', async () => {
  const recent = createRecentNotifications(10);
  const refuse = () => Promise.reject(new Error('refused'));
  const first = recent.storeOnce(signatureOf('a'), refuse);
  const second = recent.storeOnce(signatureOf('a'), refuse);
  await expect(first).rejects.toThrow('refused');
  await expect(second).rejects.toThrow('refused');
  let stores = 0;
  const store = async () => {
    stores += 1;
  };
  expect(await recent.storeOnce(signatureOf('a'), store)).toBe(true);
  expect(await recent.storeOnce(signatureOf('a'), store)).toBe(false);
  expect(stores).toBe(1);
});

test('one that cannot even begin to be stored is not remembered', async () => {
  const recent = createRecentNotifications(10);
  const fail = () => {
    throw new Error('no memory');
  };
  await expect(recent.storeOnce(signatureOf('a'), fail)).rejects.toThrow('no memory');
  expect(await recent.storeOnce(signatureOf('a'), async () => undefined)).toBe(true);
});

test('the last ones are remembered, and those before are not', async () => {
  const max = 1_000;
  const recent = createRecentNotifications(max);
  const store = (number: number) => recent.storeOnce(signatureOf(String(number)), async () => undefined);
  const count = 20 * max;
  for (let number = 0; number < count; number += 1) expect(await store(number)).toBe(true);
  let known = 0;
  for (let number = count - max; number < count; number += 1) if (!(await store(number))) known += 1;
  expect(known).toBe(max);
  let old = 0;
  for (let number = 0; number < max; number += 1) if (!(await store(number))) old += 1;
  expect(old).toBe(0);
});
