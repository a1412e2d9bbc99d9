import { afterEach, beforeEach, expect, test } from 'vitest';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import type { LoadFiles } from '#bridge/push/batch/attach-files.ts';
import type { FileContent } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { eventRecord, idOf, nextModified, startProcess } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../fake-erp.ts';
import { createPusher, event, type Pusher, supplier } from '../pusher.ts';

const files = [idOf(801), idOf(802)] as const;
let pusher: Pusher;
let erp: FakeErp;

beforeEach(async () => {
  pusher = await createPusher(1, { documents: ['file'] });
  erp = createFakeErp({ kinds: ['file'], batchMax: 5 });
  await answer([...files]);
});
afterEach(() => erp.throwFaults());

/** The supplier's answer to a question, with these files. */
async function answer(ids: string[], status = 'CLOSED'): Promise<void> {
  await pusher.store('sourcing-events', eventRecord(event, [supplier(0)], { status }));
  await pusher.store('rfi-responses', {
    id: idOf(700),
    sourcing_event: event,
    supplier: supplier(0),
    question_uuid: idOf(600),
    document_file_uuids: ids,
    modified: nextModified(),
  });
}

function loader(known: readonly string[]) {
  const asked: string[][] = [];
  const load: LoadFiles = async (ids) => {
    asked.push([...ids]);
    const found = ids.filter((id) => known.includes(id));
    return new Map(
      found.map((id): [string, FileContent] => [id, { name: `${id}.pdf`, read: async () => Buffer.from(id) }]),
    );
  };
  return { asked, load };
}

const push = async (loadFiles: LoadFiles) => (await pusher.worker(erp, { loadFiles })).push();
const row = async (key: string) =>
  (
    await pusher.db.database.query<Record<string, unknown>>('select * from bridge.flow_documents where key = $1', [key])
  )[0];

test('files go to the ERP with their bytes, which are asked for together just before', async () => {
  const { asked, load } = loader(files);
  const read: string[] = [];
  erp.onWrite = async (operations, apply, signal) => {
    for (const { file } of operations)
      read.push(`${file?.name} ${Buffer.from((await file?.read(signal)) ?? []).toString()}`);
    return operations.map(apply);
  };
  await push(load);
  expect(asked.map((ids) => ids.toSorted())).toEqual([[...files]]);
  expect(read.toSorted()).toEqual(files.map((id) => `${id}.pdf ${id}`));
  await push(load);
  expect(asked).toHaveLength(1);
});

test('a file that the service does not know becomes a dead letter, and the others are written', async () => {
  await push(loader([files[1]]).load);
  expect(erp.living().map(({ key }) => key)).toEqual([files[1]]);
  expect(await row(files[0])).toMatchObject({
    due: null,
    error_type: 'data',
    last_error: expect.stringContaining('does not know this file'),
    intent_id: null,
  });
  expect((await row(files[0]))?.['dead_since']).not.toBeNull();
  // The service has the file again.
  await replayDocuments(pusher.db.database, { flow: 'erp', dead: true }, timestampNow(pusher.clock));
  await push(loader(files).load);
  expect(erp.living()).toHaveLength(2);
});

test('when the service cannot be asked for links, the files wait, and the ERP has not failed', async () => {
  await push(async () => {
    throw new Error('no service');
  });
  expect(erp.calls).toEqual([]);
  expect(await row(files[0])).toMatchObject({ dead_since: null, last_error: expect.stringContaining('no service') });
  expect(await pusher.flowRow()).toMatchObject({ failures_in_row: 0 });
  pusher.clock.advance(60_000);
  await push(loader(files).load);
  expect(erp.living()).toHaveLength(2);
});

test('a file that the service deletes after an interrupted write is looked up, never created twice', async () => {
  erp.onWrite = async (operations, apply) => {
    operations.map(apply);
    throw new Error('connection lost');
  };
  await push(loader(files).load);
  // The ERP cannot tell the content that it holds, so the files would be written once more.
  erp.onLookup = async (_documents, find) => find().map((object) => ({ ...object, contentHash: undefined }));
  pusher.clock.advance(60_000);
  await push(loader([]).load);
  erp.onWrite = async (operations, apply) => operations.map(apply);
  await replayDocuments(pusher.db.database, { flow: 'erp' }, timestampNow(pusher.clock));
  await push(loader(files).load);
  expect(erp.operations.slice(2).map(({ action }) => action)).toEqual(['amend', 'amend']);
  expect(erp.living()).toHaveLength(2);
});

test('a file that is withdrawn is cancelled without its bytes', async () => {
  await push(loader(files).load);
  await answer([files[0]]);
  const { asked, load } = loader([]);
  await push(load);
  expect(asked).toEqual([]);
  expect(erp.living().map(({ key }) => key)).toEqual([files[0]]);
});

test('files whose links are being asked for are not claimed a second time', async () => {
  // One more than the number of files: there is always room for another call.
  erp = createFakeErp({ kinds: ['file'], batchMax: 1, concurrency: 4, timeoutMs: 30_000 });
  const third = idOf(803);
  const { asked, load } = loader([...files, third]);
  let transactions = 0;
  const process = await startProcess(pusher.db);
  const { push: pushAll } = await pusher.worker(erp, {
    process,
    database: {
      ...process.database,
      transaction: (work) => {
        transactions += 1;
        return process.database.transaction(work);
      },
    },
    loadFiles: async (ids, signal) => {
      // A third file comes, and all files of the event are marked as due with it.
      if (transactions < 3) await answer([...files, third]);
      const before = transactions;
      // By then the pusher has looked for due documents several times.
      await expect.poll(() => transactions).toBeGreaterThan(before + 4);
      return load(ids, signal);
    },
  });
  await pushAll();
  expect(asked.flat().toSorted()).toEqual([...files, third]);
  expect(erp.living()).toHaveLength(3);
});
