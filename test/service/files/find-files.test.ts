import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { missingFileIds } from '#service/files/find-files.ts';
import { uploadFile } from '../../harness/files.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const { database } = service.db;

test('returns each id that is no file of the organisation, once and in the given order', async () => {
  const [ours, theirs] = [await service.organisation(), await service.organisation()];
  const [own, foreign, nowhere] = [await uploadFile(ours), await uploadFile(theirs), randomUUID()];
  expect(await missingFileIds(database, ours.id, [nowhere, own, foreign, nowhere, own])).toEqual([nowhere, foreign]);
  expect(await missingFileIds(database, theirs.id, [own, foreign])).toEqual([own]);
  expect(await missingFileIds(database, ours.id, [own])).toEqual([]);
  expect(await missingFileIds(database, ours.id, [])).toEqual([]);
});
