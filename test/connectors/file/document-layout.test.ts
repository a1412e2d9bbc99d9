import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, symlink, utimes, watch, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Session } from '#connector/connector.ts';
import { type AwardDocument, type Document, documentKinds } from '#connector/documents.ts';
import { TransientError } from '#connector/errors.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { createDocumentLayout } from '../../../connectors/file/document-layout.ts';
import { deadlineOf, type Folder } from '../../../connectors/file/folder.ts';
import fileConnector from '../../../connectors/file/index.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';
import { settingsSchema } from '../../../connectors/file/settings.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';

const event = '00000000-0000-4000-8000-000000000001';
const supplier = '00000000-0000-4000-8000-000000000002';
const base = `award_${event}_${supplier}`;
const never = new AbortController().signal;

let dataDir: string;
let folder: string;
let session: Session;
beforeEach(async () => {
  dataDir = await scratchFolder();
  folder = join(dataDir, 'inbox');
  session = await open();
});

const openAt = (directory: string) =>
  fileConnector.open(fileConnector.settings.parse({ directory }), testContext({ dataDir }).context);
const open = () => openAt('inbox');

function documentOf(more: Partial<AwardDocument> = {}): AwardDocument {
  return {
    kind: 'award',
    key: `${event}/${supplier}`,
    event: { id: event, name: 'Krzesła, "biurowe"', reference_id: 'R-1', type: 'RFQ', is_test: false, tags: [] },
    supplier: { id: supplier, external_id: '4711', name: '株式会社\r\nテスト' },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: '12.6',
    lines: [
      {
        lot: 'A',
        share: '0.5',
        quantity: '5',
        unit_price: '2.5',
        cost: '12.50',
        savings: '-1',
        values: [
          { column: 'Price', value: '2.50' },
          { column: 'Remark; "x"', value: 'a,b' },
        ],
      },
      { lot: 'B', share: '1', cost: '0.10', values: [{ column: 'Price', value: '0.1' }] },
    ],
    ...more,
  };
}

function operationOf(
  document: AwardDocument,
  action: Operation['action'] = 'create',
  contentHash = 'hash-1',
): Operation {
  return { action, document, contentHash, idempotencyKey: 'k', reference: undefined };
}

const write = (...operations: Operation[]) => session.write(operations, never);
const json = async () => JSON.parse(await readFile(join(folder, `${base}.json`), 'utf8'));
const csv = () => readFile(join(folder, `${base}.csv`), 'utf8');
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describe('writing an award', () => {
  test('makes two files under names that follow from its key, and nothing else', async () => {
    expect(await write(operationOf(documentOf()))).toEqual([{ status: 'created', reference: `${base}.json` }]);
    expect((await readdir(folder)).sort()).toEqual([`${base}.csv`, `${base}.json`]);
    expect(await json()).toEqual({
      state: 'awarded',
      content_hash: 'hash-1',
      lines_file: `${base}.csv`,
      lines_sha256: sha256(await csv()),
      ...documentOf(),
    });
  });

  test('makes a CSV (RFC 4180) with a row per lot and the bid sheet as columns', async () => {
    await write(operationOf(documentOf()));
    const who = `${event},R-1,"Krzesła, ""biurowe""",${supplier},4711,"株式会社\r\nテスト"`;
    expect(await csv()).toBe(
      [
        'event_id,event_reference,event_name,supplier_id,supplier_external_id,supplier_name,lot,share,quantity,' +
          'unit_price,currency,cost,historic_cost,savings,requisition,requisition_line,sheet: Price,"sheet: Remark; ""x"""',
        `${who},A,0.5,5,2.5,EUR,12.50,,-1,,,2.50,"a,b"`,
        `${who},B,1,,,EUR,0.10,,,,,0.1,`,
        '',
      ].join('\r\n'),
    );
  });

  test('twice makes the same two files, and an amend replaces them', async () => {
    await write(operationOf(documentOf()));
    const before = [await json(), await csv()];
    await write(operationOf(documentOf()));
    expect([await json(), await csv()]).toEqual(before);
    const [outcome] = await write(operationOf(documentOf({ total_cost: '1' }), 'amend', 'hash-2'));
    expect(outcome).toEqual({ status: 'updated', reference: `${base}.json` });
    expect(await json()).toMatchObject({ total_cost: '1', content_hash: 'hash-2' });
    expect(await readdir(folder)).toHaveLength(2);
  });

  test('that is cancelled leaves a withdrawn document without lines', async () => {
    await write(operationOf(documentOf()));
    const [outcome] = await write(operationOf(documentOf({ lines: [], total_cost: '0' }), 'cancel', 'empty'));
    expect(outcome).toEqual({ status: 'cancelled', reference: `${base}.json` });
    expect(await json()).toMatchObject({ state: 'withdrawn', lines: [] });
    expect((await csv()).split('\r\n')).toHaveLength(2);
  });

  test('never shows half a file under its name while it is replaced', async () => {
    const stop = new AbortController();
    const big = documentOf({
      supplier: { id: supplier, name: 'plain' },
      lines: Array.from({ length: 2_000 }, (_, n) => ({ lot: `${n}`, share: '1', cost: '1', values: [] })),
    });
    await write(operationOf(big));
    let looks = 0;
    const sizes = new Set<string>();
    const look = async () => {
      looks += 1;
      sizes.add(`${(await json()).lines.length} ${(await csv()).split('\r\n').length}`);
    };
    const watching = (async () => {
      for await (const { filename } of watch(folder, { signal: stop.signal }))
        if (filename === `${base}.json`) await look();
    })().catch((error: Error) => {
      if (error.name !== 'AbortError') throw error;
    });
    const reading = (async () => {
      while (!stop.signal.aborted) await look();
    })();
    for (let count = 0; count < 10; count += 1) await write(operationOf(big, 'amend', `hash-${count}`));
    stop.abort();
    await Promise.all([watching, reading]);
    // 2,000 lots; the CSV also has the header and the empty text after the last line end.
    expect([...sizes]).toEqual(['2000 2002']);
    expect(looks).toBeGreaterThan(0);
  });

  test('with an aborted signal writes nothing', async () => {
    const stop = new AbortController();
    stop.abort();
    const outcomes = await session.write([operationOf(documentOf())], stop.signal);
    expect(outcomes).toMatchObject([{ status: 'retry', error: { type: 'transient' } }]);
    expect(await readdir(folder)).toEqual([]);
  });

  test('stays within its folder for any key, and two keys never share a name', async () => {
    const keys = ['../../etc/passwd', 'a/b', 'a_b', 'a%5f%b', 'A\u0000b', 'ä/ö', 'a//b'];
    await write(...keys.map((key) => operationOf(documentOf({ key }))));
    const files = (await readdir(folder)).filter((name) => name.endsWith('.json'));
    expect(files).toHaveLength(keys.length);
    for (const name of files) expect(name).toMatch(/^award_[A-Za-z0-9%_-]+\.json$/);
    expect(await readdir(dataDir)).toEqual(['inbox']);
  });
});

describe('lookup', () => {
  const lookUp = () => session.lookup([documentOf()], never);

  test('finds what was written, and nothing else', async () => {
    expect(await lookUp()).toEqual([]);
    await write(operationOf(documentOf()));
    expect(await lookUp()).toEqual([{ key: documentOf().key, reference: `${base}.json`, contentHash: 'hash-1' }]);
    expect(await session.lookup([documentOf({ key: `${event}/${event}` })], never)).toEqual([]);
  });

  test('does not find a withdrawn award', async () => {
    await write(operationOf(documentOf()), operationOf(documentOf({ lines: [] }), 'cancel', 'empty'));
    expect(await lookUp()).toEqual([]);
  });

  test.each([
    ['the CSV was replaced and the JSON not', () => writeFile(join(folder, `${base}.csv`), 'newer')],
    ['the CSV is gone', () => rm(join(folder, `${base}.csv`))],
    ['the JSON is damaged', () => writeFile(join(folder, `${base}.json`), '{"content_hash":"hash-1"')],
    ['the JSON is a foreign file', () => writeFile(join(folder, `${base}.json`), '[1]')],
  ])('returns no content hash when %s', async (_what, damage) => {
    await write(operationOf(documentOf()));
    await damage();
    expect(await lookUp()).toEqual([{ key: documentOf().key, reference: `${base}.json`, contentHash: undefined }]);
  });
});

describe('a folder', () => {
  test('is created when it is missing, relative to the data directory', async () => {
    expect(await readdir(dataDir)).toEqual(['inbox']);
    expect(await session.check()).toEqual([{ name: 'folder', ok: true, message: `${folder} can be written.` }]);
  });

  test('that cannot be created stops the start with a message that names it', async () => {
    await writeFile(join(dataDir, 'taken'), '');
    await expect(openAt('taken/inbox')).rejects.toMatchObject({
      type: 'config',
      message: expect.stringMatching(
        `^The folder ${join(dataDir, 'taken/inbox')} \\(settings.directory\\) cannot be created: Error: ENOTDIR`,
      ) as string,
    });
  });

  test('that is missing or replaced by a file makes awards wait, and they are written when it is back', async () => {
    await rm(folder, { recursive: true });
    await writeFile(folder, 'a file');
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'retry', error: { type: 'transient' } }]);
    await rm(folder);
    // Not made again: where a disk is not mounted, nothing is written in its place.
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'retry', error: { type: 'transient' } }]);
    await mkdir(folder);
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'created' }]);
  });

  test('in which a file cannot be replaced leaves no temporary file, and says that the document is refused', async () => {
    await mkdir(join(folder, `${base}.json`, 'in the way'), { recursive: true });
    expect(await write(operationOf(documentOf()))).toMatchObject([
      { status: 'rejected', error: { message: expect.stringContaining('no regular file') } },
    ]);
    expect(await readdir(folder)).toEqual([`${base}.json`]);
  });

  test('in which the JSON is a link is not read outside of the folder', async () => {
    await writeFile(join(dataDir, 'elsewhere.json'), '{"key":"secret","state":"current","content_hash":"x"}');
    await symlink(join(dataDir, 'elsewhere.json'), join(folder, `${base}.json`));
    expect(await session.lookup([documentOf()], never)).toEqual([
      { key: documentOf().key, unclear: expect.stringContaining('no regular file') },
    ]);
  });

  test('in which the JSON cannot be written keeps the files that it had', async () => {
    const local = await openLocalFolder(folder);
    let isFull = false;
    const filling: Folder = {
      ...local,
      write: async (path, content) => {
        if (isFull && path.includes('.json.')) throw new TransientError('full');
        await local.write(path, content);
      },
    };
    const settings = settingsSchema.parse({ directory: 'inbox' });
    const layout = createDocumentLayout(filling, settings);
    const writeOne = (given: Operation) => layout.write([given], never, () => undefined);
    await writeOne(operationOf(documentOf()));
    const before = [await json(), await csv()];
    isFull = true;
    const amend = operationOf(documentOf({ lines: [], total_cost: '0' }), 'amend', 'hash-2');
    expect(await writeOne(amend)).toMatchObject([{ status: 'retry', error: { type: 'transient' } }]);
    expect([await json(), await csv()]).toEqual(before);
    expect(await readdir(folder)).toHaveLength(2);
  });

  test('is written by no process that stood still past its time limit', async () => {
    const clock = createManualClock();
    const local = await openLocalFolder(folder);
    const slow: Folder = {
      ...local,
      write: async (path, content) => {
        clock.advance(60_000);
        await local.write(path, content);
      },
    };
    const layout = createDocumentLayout(slow, settingsSchema.parse({ directory: 'inbox' }));
    const deadline = deadlineOf(clock, 60_000, never);
    expect(await layout.write([operationOf(documentOf())], never, deadline)).toMatchObject([{ status: 'retry' }]);
    expect(await readdir(folder)).toEqual([]);
  });

  test.skipIf(process.getuid?.() === 0)('that this user may not write is reported', async () => {
    await chmod(folder, 0o500);
    expect(await session.check()).toMatchObject([{ ok: false, message: expect.stringContaining(folder) }]);
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'retry' }]);
    await chmod(folder, 0o700);
  });

  test('loses old leftovers of a kill at the start; new ones and foreign files stay', async () => {
    const old = new Date(Date.now() - 25 * 3_600_000);
    for (const name of ['.award_x.json.0123.tmp', '.award_new.json.0123.tmp', '.other.tmp', 'award_x.json'])
      await writeFile(join(folder, name), '');
    for (const name of ['.award_x.json.0123.tmp', '.other.tmp', 'award_x.json'])
      await utimes(join(folder, name), old, old);
    await mkdir(join(folder, 'files'));
    await writeFile(join(folder, 'files', '.plan.pdf.0123.tmp'), '');
    await utimes(join(folder, 'files', '.plan.pdf.0123.tmp'), old, old);
    await Promise.all([open(), open()]);
    expect(await filesIn(folder)).toEqual(['.award_new.json.0123.tmp', '.other.tmp', 'award_x.json']);
  });
});

const head = { id: event, name: 'Chairs', type: 'RFQ', is_test: false, tags: [] };
const others: Record<Exclude<Document['kind'], 'award'>, Document> = {
  supplier: {
    kind: 'supplier',
    key: 'V/1 &co',
    external_id: 'V/1 &co',
    name: 'Ärmel',
    archived: true,
    attributes: [],
    contacts: [],
  },
  'sourcing-event': {
    kind: 'sourcing-event',
    key: event,
    event: head,
    status: 'OPEN',
    currency: 'EUR',
    exchange_rates: [],
    rounds: [],
    columns: [],
    sourcing_requests: [],
    suppliers: [],
  },
  quotation: {
    kind: 'quotation',
    key: `${event}/${supplier}`,
    event: head,
    supplier: { id: supplier, name: 'Ärmel' },
    currency: 'EUR',
    exchange_rates: [],
    lines: [
      {
        lot: 'A',
        bids: [
          { value: '9', volume: '100' },
          { value: '8', volume: '500' },
        ],
        values: [{ column: 'Colour', value: 'red' }],
        fields: { Plant: '1000' },
      },
    ],
    fields: { Plant: 'of the document', Buyer: 'X' },
  },
  'event-awards': {
    kind: 'event-awards',
    key: event,
    event: head,
    currency: 'EUR',
    exchange_rates: [],
    total_cost: '9',
    suppliers: [{ id: supplier, name: 'Ärmel', total_cost: '9' }],
    lines: [{ lot: 'A', supplier: { id: supplier, name: 'Ärmel' }, share: '1', cost: '9', values: [] }],
    bid_sheet_csv: 'lot,supplier,supplier_external_id,share\r\nA,Ärmel,,1\r\n',
  },
  'rfi-answers': {
    kind: 'rfi-answers',
    key: `${event}/${supplier}`,
    event: head,
    supplier: { id: supplier, name: 'Ärmel' },
    lines: [
      {
        question: { id: 'q', identifier: '1.2', text: 'Why?', categories: [] },
        options: [
          { value: 'red', satisfies_gating: true },
          { value: 'blue', satisfies_gating: false },
        ],
        files: ['f'],
      },
    ],
  },
  file: { kind: 'file', key: supplier, event: head, question: { id: 'q', categories: [] } },
  job: { kind: 'job', key: event, type: 'CREATE_SOURCING_EVENT', status: 'FAILED', errors: [{ message: 'Ä, "no"' }] },
};
const names = {
  supplier: 'supplier_V_1%20%%26%co',
  'sourcing-event': `sourcing-event_${event}`,
  quotation: `quotation_${event}_${supplier}`,
  'event-awards': `event-awards_${event}`,
  'rfi-answers': `rfi-answers_${event}_${supplier}`,
  file: `file_${supplier}`,
  job: `job_${event}`,
};
const bytes = new Uint8Array([0, 255, 13, 10]);
const file = { name: '../Zeichnung.pdf', read: async () => bytes };
/** Its own name, without the path that somebody put into it, and the beginning of the key's checksum. */
const bytesFile = `files/Zeichnung-${sha256(supplier).slice(0, 16)}.pdf`;

/** The files in a folder and below it, without the folders. */
async function filesIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(path, join(entry.parentPath, entry.name))).toSorted();
}
const kinds = documentKinds.filter((kind) => kind !== 'award');

describe.each(kinds)('writing a document of kind %s', (kind) => {
  const document = others[kind];
  const operation = (action: Operation['action'], contentHash = 'hash-1'): Operation => ({
    action,
    document,
    contentHash,
    idempotencyKey: 'k',
    reference: undefined,
    ...(kind === 'file' && action !== 'cancel' ? { file } : {}),
  });
  const held = async () => JSON.parse(await readFile(join(folder, `${names[kind]}.json`), 'utf8'));

  test('is found by lookup while it is not withdrawn, with its hash while its companions fit', async () => {
    const ofLines = 'lines' in document ? `${names[kind]}.csv` : undefined;
    const companion = kind === 'file' ? bytesFile : ofLines;
    expect(await write(operation('create'))).toEqual([{ status: 'created', reference: `${names[kind]}.json` }]);
    const files = [...(companion ? [companion] : []), `${names[kind]}.json`];
    expect(await filesIn(folder)).toEqual(files.toSorted());
    expect(await held()).toMatchObject({ state: 'current', content_hash: 'hash-1', ...document });
    const found = { key: document.key, reference: `${names[kind]}.json` };
    expect(await session.lookup([document], never)).toEqual([{ ...found, contentHash: 'hash-1' }]);
    if (companion) await writeFile(join(folder, companion), 'newer');
    const contentHash = companion ? undefined : 'hash-1';
    expect(await session.lookup([document], never)).toEqual([{ ...found, contentHash }]);
    expect(await write(operation('amend', 'hash-2'))).toMatchObject([{ status: 'updated' }]);
    expect(await session.lookup([document], never)).toEqual([{ ...found, contentHash: 'hash-2' }]);
    expect(await write(operation('cancel', 'hash-3'))).toMatchObject([{ status: 'cancelled' }]);
    expect(await held()).toMatchObject({ state: 'withdrawn' });
    expect(await session.lookup([document], never)).toEqual([]);
  });
});

describe('the lines of a quotation', () => {
  test('are a row per bid, with the sheet and the fields of the mapping', async () => {
    await write({ ...operationOf(documentOf()), document: others.quotation });
    const who = `${event},,Chairs,${supplier},,Ärmel`;
    expect(await readFile(join(folder, `${names.quotation}.csv`), 'utf8')).toBe(
      [
        'event_id,event_reference,event_name,supplier_id,supplier_external_id,supplier_name,lot,quantity,unit_price,' +
          'currency,bid,volume,sheet: Colour,field: Plant,field: Buyer',
        `${who},A,,,EUR,9,100,red,1000,X`,
        `${who},A,,,EUR,8,500,red,1000,X`,
        '',
      ].join('\r\n'),
    );
  });
});

describe('the lines of RFI answers', () => {
  test('are a row per answer, with the chosen options as its value', async () => {
    await write({ ...operationOf(documentOf()), document: others['rfi-answers'] });
    expect(await readFile(join(folder, `${names['rfi-answers']}.csv`), 'utf8')).toBe(
      [
        'event_id,event_reference,event_name,supplier_id,supplier_external_id,supplier_name,question,question_id,' +
          'question_text,value,currency,comment,files',
        `${event},,Chairs,${supplier},,Ärmel,1.2,q,Why?,"red, blue",,,f`,
        '',
      ].join('\r\n'),
    );
  });
});

describe('a file', () => {
  const written = (given: Partial<Operation>): Operation => ({
    ...operationOf(documentOf()),
    document: others.file,
    ...given,
  });

  test('has its bytes under its own name, without a path, and a withdrawal removes them', async () => {
    await write(written({ file }));
    expect(await readFile(join(folder, bytesFile))).toEqual(Buffer.from(bytes));
    expect(JSON.parse(await readFile(join(folder, `${names.file}.json`), 'utf8'))).toMatchObject({
      file_name: '../Zeichnung.pdf',
      bytes_file: bytesFile,
      bytes: 4,
      bytes_sha256: createHash('sha256').update(bytes).digest('hex'),
    });
    await write(written({ action: 'cancel' }));
    expect(await filesIn(folder)).toEqual([`${names.file}.json`]);
  });

  test('whose bytes cannot be read is a retry, and nothing is written', async () => {
    const unreadable = { name: 'x', read: async () => Promise.reject(new Error('the link has expired')) };
    expect(await write(written({ file: unreadable }))).toEqual([
      { status: 'retry', error: { type: 'transient', message: 'the link has expired' } },
    ]);
    expect(await readdir(folder)).toEqual([]);
  });
});

test('a supplier whose file name another one has, on a file system that ignores case, gets a name of its own', async () => {
  const named = (key: string, name: string) => ({
    ...operationOf(documentOf()),
    document: { ...others.supplier, key, external_id: key, name } as Document,
  });
  const [upper, lower] = [named('V-1', 'Upper'), named('v-1', 'Lower')];
  await write(upper);
  // Such a file system shows the file under the other name, too.
  await rename(join(folder, 'supplier_V-1.json'), join(folder, 'supplier_v-1.json'));
  const [outcome] = await write(lower);
  expect(outcome).toEqual({ status: 'created', reference: `supplier_v-1_${sha256('v-1')}.json` });
  const nameIn = async (file: string) => JSON.parse(await readFile(join(folder, file), 'utf8')).name;
  expect(await nameIn('supplier_v-1.json')).toBe('Upper');
  expect(await nameIn(`supplier_v-1_${sha256('v-1')}.json`)).toBe('Lower');
  expect(await session.lookup([lower.document], never)).toMatchObject([
    { key: 'v-1', reference: `supplier_v-1_${sha256('v-1')}.json`, contentHash: 'hash-1' },
  ]);
  // The next write uses the same name.
  expect(await write({ ...lower, action: 'amend' })).toMatchObject([
    { reference: `supplier_v-1_${sha256('v-1')}.json` },
  ]);
  expect(await readdir(folder)).toHaveLength(2);
});

test('keys that are too long for a file name get different names', async () => {
  const keys = ['x', 'y'].map((end) => `${'ü'.repeat(120)}${end}`);
  await write(...keys.map((key) => operationOf(documentOf({ key }))));
  expect((await readdir(folder)).filter((name) => name.endsWith('.json'))).toHaveLength(2);
});

test('two files of one name have a checksum after it, and keep their names when they get others', async () => {
  const fileOf = (key: string, name = 'plan.pdf'): Operation => ({
    ...operationOf(documentOf()),
    document: { ...others.file, key },
    file: { name, read: async () => Buffer.from(key) },
  });
  const pathOf = (key: string) => `files/plan-${sha256(key).slice(0, 16)}.pdf`;
  await write(fileOf('one'), fileOf('two'));
  await write({ ...fileOf('one', 'other.pdf'), action: 'amend' });
  const documents = ['file_one.json', 'file_two.json'];
  expect(await filesIn(folder)).toEqual([...documents, ...['one', 'two'].map(pathOf).toSorted()]);
  expect(await readFile(join(folder, pathOf('one')), 'utf8')).toBe('one');
  await write({ ...fileOf('one'), action: 'cancel' });
  expect(await filesIn(folder)).toEqual([...documents, pathOf('two')]);
});
