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
  expect([first.isNew, second.isNew, stores]).toEqual([true, false, 1]);
  let acknowledged = false;
  void second.stored.then(() => {
    acknowledged = true;
  });
  await turn();
  expect(acknowledged, 'not before it is stored').toBe(false);
  writing.resolve();
  await Promise.all([first.stored, second.stored]);
  await turn();
  const third = recent.storeOnce(signature, store);
  await third.stored;
  expect([third.isNew, stores]).toEqual([false, 1]);
});

test('a failed one is stored when it comes again', async () => {
  const recent = createRecentNotifications(10);
  const refuse = () => Promise.reject(new Error('refused'));
  const first = recent.storeOnce(signatureOf('a'), refuse);
  const second = recent.storeOnce(signatureOf('a'), refuse);
  await expect(first.stored).rejects.toThrow('refused');
  await expect(second.stored).rejects.toThrow('refused');
  expect(recent.storeOnce(signatureOf('a'), async () => undefined).isNew).toBe(true);
});

test('nearly all of the last ones are remembered, and those long before are not', async () => {
  const max = 1_000;
  const recent = createRecentNotifications(max);
  const store = async (number: number) => {
    const { isNew, stored } = recent.storeOnce(signatureOf(String(number)), async () => undefined);
    await stored;
    return isNew;
  };
  const count = 20 * max;
  for (let number = 0; number < count; number += 1) expect(await store(number)).toBe(true);
  let known = 0;
  for (let number = count - max; number < count; number += 1) if (!(await store(number))) known += 1;
  // A bucket of eight gets four of them on average: a Poisson distribution has more than eight in 2 of 100.
  expect(known).toBeGreaterThan(0.9 * max);
  let old = 0;
  for (let number = 0; number < max; number += 1) if (!(await store(number))) old += 1;
  expect(old).toBe(0);
});
