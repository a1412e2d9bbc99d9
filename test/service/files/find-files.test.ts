import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { requireFiles } from '#service/files/find-files.ts';
import { startTestService } from '../../harness/programs.ts';
import { uploaded } from './sample-files.ts';

const service = await startTestService();
const { database } = service.db;

test('names each id that is no file of the organisation, once and in the order given', async () => {
  const [ours, theirs] = [await service.organisation(), await service.organisation()];
  const [own, foreign, nowhere] = [await uploaded(ours), await uploaded(theirs), randomUUID()];
  expect(await requireFiles(database, ours.id, [nowhere, own, foreign, nowhere, own])).toEqual([nowhere, foreign]);
  expect(await requireFiles(database, theirs.id, [own, foreign])).toEqual([own]);
  expect(await requireFiles(database, ours.id, [own])).toEqual([]);
  expect(await requireFiles(database, ours.id, [])).toEqual([]);
});
