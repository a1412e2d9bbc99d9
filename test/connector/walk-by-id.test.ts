import { type IdWalk, pagesById, type ReadPage, walkById } from 'sourcing-bridge/connector';
import { expect, test } from 'vitest';

interface Row {
  readonly id: number;
  readonly changedMs: number;
}

const never = new AbortController().signal;

/** An ERP whose rows the test changes; its clock stands where the test sets it. */
function erpOf(rows: Row[]) {
  const erp = { rows, nowMs: 1_000_000 };
  const walk: IdWalk<Row, 'supplier'> = {
    connector: 'Test',
    nowMs: async () => erp.nowMs,
    overlapMs: 100_000,
    pageSize: 2,
    changedSince: (sinceMs) => async (after) =>
      erp.rows.filter(({ id, changedMs }) => id > after && changedMs >= (sinceMs ?? 0)).slice(0, 2),
    recordsOf: async (page) =>
      page.map(({ id }) => ({ external_id: String(id), name: `${id}`, archived: false, fields: {}, contacts: [] })),
  };
  return { erp, walk };
}

/** The ids of each page, and the checkpoint behind the last one that was taken. */
async function read(pages: AsyncIterable<ReadPage<'supplier'>>, most = Number.POSITIVE_INFINITY) {
  const ids: string[] = [];
  let checkpoint: string | undefined;
  for await (const page of pages) {
    ids.push(page.records.map(({ external_id }) => external_id).join());
    checkpoint = page.checkpoint;
    if (ids.length === most) break;
  }
  return { ids, checkpoint };
}

const rowsOf = (...ids: number[]) => ids.map((id) => ({ id, changedMs: 500_000 }));

test('the first read shows all rows, the next one what has changed since it began, less the overlap', async () => {
  const { erp, walk } = erpOf(rowsOf(0, 3, 7));
  const first = await read(walkById(walk, undefined, never));
  expect(first.ids).toEqual(['0,3', '7']);
  erp.nowMs = 2_000_000;
  erp.rows = [
    { id: 0, changedMs: 899_999 },
    { id: 3, changedMs: 900_000 },
    { id: 7, changedMs: 1_500_000 },
  ];
  const second = await read(walkById(walk, first.checkpoint, never));
  expect(second.ids).toEqual(['3,7', '']);
});

test('a read that was interrupted goes on after its last row, and the next one begins where it had begun', async () => {
  const { erp, walk } = erpOf(rowsOf(1, 2, 3));
  const begun = await read(walkById(walk, undefined, never), 1);
  expect(begun.ids).toEqual(['1,2']);
  // The first row changes behind the walk, before the rest of it.
  erp.nowMs = 2_000_000;
  erp.rows = [{ id: 1, changedMs: 1_200_000 }, ...rowsOf(2, 3)];
  const rest = await read(walkById(walk, begun.checkpoint, never));
  expect(rest.ids).toEqual(['3']);
  const next = await read(walkById(walk, rest.checkpoint, never));
  expect(next.ids).toEqual(['1']);
});

test('where the server tells no time, each read shows all rows', async () => {
  const { walk } = erpOf(rowsOf(1));
  const timeless = { ...walk, nowMs: async () => undefined };
  const { checkpoint } = await read(walkById(timeless, undefined, never));
  expect((await read(walkById(timeless, checkpoint, never))).ids).toEqual(['1']);
});

test('the checkpoint of another connector is refused by name', async () => {
  const { walk } = erpOf([]);
  await expect(read(walkById(walk, '{"since":"yesterday"}', never))).rejects.toThrow(
    'The checkpoint was not written by the Test connector: start this read from the beginning.',
  );
});

test('all rows come in pages by their ids, the last one shorter', async () => {
  const { walk } = erpOf(rowsOf(1, 2, 3, 4));
  const pages = [];
  for await (const { rows, isLast } of pagesById(walk.changedSince(undefined), { pageSize: 2 }, never))
    pages.push([rows.map(({ id }) => id), isLast]);
  expect(pages).toEqual([
    [[1, 2], false],
    [[3, 4], false],
    [[], true],
  ]);
});

test('ids may be texts, as SAP’s numbers are; a checkpoint with ids of the other kind is refused', async () => {
  const rows = ['0010', '0020', '0030'].map((id) => ({ id }));
  const asked: unknown[] = [];
  const walk: IdWalk<{ id: string }, 'supplier'> = {
    connector: 'Test',
    beforeFirst: '',
    nowMs: async () => 1_000_000,
    overlapMs: 0,
    pageSize: 2,
    changedSince: () => async (after) => {
      asked.push(after);
      return rows.filter(({ id }) => id > after).slice(0, 2);
    },
    recordsOf: async (page) =>
      page.map(({ id }) => ({ external_id: id, name: id, archived: false, fields: {}, contacts: [] })),
  };
  const begun = await read(walkById(walk, undefined, never), 1);
  expect(begun.ids).toEqual(['0010,0020']);
  expect((await read(walkById(walk, begun.checkpoint, never))).ids).toEqual(['0030']);
  expect(asked).toEqual(['', '0020']);
  await expect(read(walkById(erpOf([]).walk, begun.checkpoint, never))).rejects.toThrow('not written by the Test');
});
