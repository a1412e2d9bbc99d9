import { describe, expect, test } from 'vitest';
import { loadOptional } from '#platform/optional-package.ts';

describe('an optional part', () => {
  const missing = (name: string) =>
    Object.assign(new Error(`Cannot find package '${name}' imported from /x.js`), { code: 'ERR_MODULE_NOT_FOUND' });

  test('that is not installed is named in one sentence, with the command that installs it', async () => {
    await expect(
      loadOptional('s3', 'The file store s3', () => Promise.reject(missing('@aws-sdk/client-s3'))),
    ).rejects.toMatchObject({
      code: 'invalid',
      publicMessage: 'The file store s3 needs a package that is not installed: npm install @aws-sdk/client-s3',
    });
  });

  test('that fails for another reason keeps its error', async () => {
    const other = missing('something-else');
    await expect(loadOptional('s3', 'The file store s3', () => Promise.reject(other))).rejects.toBe(other);
  });
});
