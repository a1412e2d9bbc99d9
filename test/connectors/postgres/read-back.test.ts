/** Reading back from the tables: the short way of rows that are equal, and the long one, say the same. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { documentKinds } from '#connector/documents.ts';
import { comparedValuesOf, type ReadBack } from '#connector/read-back.ts';
import { createEmptyDatabase } from '../../harness/test-database.ts';
import { anyDocument } from './any-document.ts';
import { award, never, openSession, operationOf } from './sessions.ts';

test('documents of any texts and numbers are held as they were written, without a field that would have to be made', async () => {
  const db = await createEmptyDatabase();
  const session = await openSession(db.url);
  try {
    for (const kind of documentKinds.filter((each) => each !== 'file'))
      await fc.assert(
        fc.asyncProperty(anyDocument(kind), async (document) => {
          const [outcome] = await session.write([operationOf(document)], never);
          // Two that differ only in what PostgreSQL cannot hold are refused; other tests are about those.
          fc.pre(outcome !== undefined && 'reference' in outcome);
          const answer = await readBack(document);
          expect(answer).toMatchObject({ status: 'held', fields: [] });
          expect(answer.status === 'held' && comparedValuesOf(answer)).toBeGreaterThan(0);
        }),
        { numRuns: 30 },
      );
  } finally {
    await session.close();
    await db.drop();
  }

  async function readBack(document: Document): Promise<ReadBack> {
    const [answer] = (await session.readBack?.([{ document, reference: undefined }], never)) ?? [];
    if (!answer) throw new Error('no answer');
    return answer;
  }
});

test('as many values are compared where one differs as where none does', async () => {
  const db = await createEmptyDatabase();
  const session = await openSession(db.url);
  try {
    const document = award(1, ['1.10', '2']);
    await session.write([operationOf(document)], never);
    const read = async () => (await session.readBack?.([{ document, reference: undefined }], never))?.[0];
    const equal = await read();
    await db.database.query(`update sourcing.award_line set cost = 3 where line = 2`);
    const edited = await read();
    if (equal?.status !== 'held' || edited?.status !== 'held') throw new Error('not held');
    expect(edited.fields.filter(({ expected, held }) => expected !== held)).toEqual([
      { name: 'award_line[2].cost', expected: '2', held: '3' },
    ]);
    expect(comparedValuesOf(edited)).toBe(comparedValuesOf(equal));
  } finally {
    await session.close();
    await db.drop();
  }
});
