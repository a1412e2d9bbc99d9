import { expect, test } from 'vitest';
import { inOrder } from '#platform/database/sql.ts';

test('of statements that were sent one behind the other, the error of the first one that failed is thrown', async () => {
  const first = Promise.withResolvers<void>();
  const waiting = inOrder([Promise.resolve(), first.promise, Promise.reject(new Error('because of it'))]);
  first.reject(new Error('the reason'));
  await expect(waiting).rejects.toThrow('the reason');
  await expect(inOrder([Promise.resolve(), Promise.resolve()])).resolves.toBeUndefined();
});
