import { expect, test } from 'vitest';
import { createRecentNotifications } from '#bridge/receive/recent-notifications.ts';

test('a notification is stored once, however often it comes, and each time its outcome is that of the first', async () => {
  const recent = createRecentNotifications(10);
  const writing = Promise.withResolvers<void>();
  let stores = 0;
  const store = () => {
    stores += 1;
    return writing.promise;
  };
  const first = recent.storeOnce('hmac-sha256=AB', store);
  const second = recent.storeOnce('hmac-sha256=ab', store);
  expect([first.isNew, second.isNew, stores]).toEqual([true, false, 1]);
  let acknowledged = false;
  void second.stored.then(() => {
    acknowledged = true;
  });
  await new Promise(setImmediate);
  expect(acknowledged, 'not before it is stored').toBe(false);
  writing.resolve();
  await Promise.all([first.stored, second.stored]);
  expect(recent.storeOnce('hmac-sha256=ab', store).isNew).toBe(false);
});

test('a failed one is stored when it comes again', async () => {
  const recent = createRecentNotifications(10);
  const refuse = () => Promise.reject(new Error('refused'));
  const first = recent.storeOnce('a', refuse);
  const second = recent.storeOnce('a', refuse);
  await expect(first.stored).rejects.toThrow('refused');
  await expect(second.stored).rejects.toThrow('refused');
  expect(recent.storeOnce('a', async () => undefined).isNew).toBe(true);
});

test('at least the last ones are remembered, and at most twice as many', () => {
  const max = 4;
  const recent = createRecentNotifications(max);
  const isNew = (signature: number) => recent.storeOnce(String(signature), async () => undefined).isNew;
  for (let number = 0; number < 100; number += 1) {
    expect(isNew(number)).toBe(true);
    for (let last = Math.max(0, number - max + 1); last <= number; last += 1) expect(isNew(last)).toBe(false);
  }
  // Asked from the newest to the oldest; each that is new is remembered in place of another.
  const known = Array.from({ length: 100 }, (_, index) => 99 - index).findIndex((number) => isNew(number));
  expect(known).toBeLessThanOrEqual(2 * max);
});
