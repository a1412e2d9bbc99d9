import { argon2Sync } from 'node:crypto';
import { expect, test } from 'vitest';
import { libraryTag } from '../../../src/console/access/passwords.ts';

test('an older Node computes the same hash of a password as Node does', async () => {
  const message = Buffer.from('correct horse battery stäple');
  const nonce = Buffer.alloc(16, 7);
  const expected = argon2Sync('argon2id', { message, nonce, parallelism: 2, tagLength: 32, memory: 64, passes: 3 });
  expect(await libraryTag(message, nonce, { m: 64, t: 3, p: 2 })).toEqual(expected);
});
