import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, utimes, watch, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Session } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import fileConnector from '../../connectors/file/index.ts';
import { scratchFolder } from '../harness/programs.ts';

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

const open = () => fileConnector.open({ directory: 'inbox' }, { dataDir });

function documentOf(more: Partial<AwardDocument> = {}): AwardDocument {
  return {
    kind: 'award',
    key: `${event}/${supplier}`,
    event: { id: event, name: 'Krzesła, "biurowe"', reference_id: 'R-1', is_test: false, tags: [] },
    supplier: { id: supplier, external_id: '4711', name: '株式会社\r\nテスト' },
    currency: 'EUR',
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
  test('gives two files under names that follow from its key, readable by others, and nothing else', async () => {
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

  test('gives a CSV (RFC 4180) with a row for each lot and the bid sheet beside it', async () => {
    await write(operationOf(documentOf()));
    const who = `${event},R-1,"Krzesła, ""biurowe""",${supplier},4711,"株式会社\r\nテスト"`;
    expect(await csv()).toBe(
      [
        'event_id,event_reference,event_name,supplier_id,supplier_external_id,supplier_name,lot,share,quantity,' +
          'unit_price,currency,cost,historic_cost,savings,sheet: Price,"sheet: Remark; ""x"""',
        `${who},A,0.5,5,2.5,EUR,12.50,,-1,2.50,"a,b"`,
        `${who},B,1,,,EUR,0.10,,,0.1,`,
        '',
      ].join('\r\n'),
    );
  });

  test('twice gives the same two files, and an amendment replaces them', async () => {
    await write(operationOf(documentOf()));
    const before = [await json(), await csv()];
    await write(operationOf(documentOf()));
    expect([await json(), await csv()]).toEqual(before);
    const [outcome] = await write(operationOf(documentOf({ total_cost: '1' }), 'amend', 'hash-2'));
    expect(outcome).toEqual({ status: 'updated', reference: `${base}.json` });
    expect(await json()).toMatchObject({ total_cost: '1', content_hash: 'hash-2' });
    expect(await readdir(folder)).toHaveLength(2);
  });

  test('that was taken back leaves a document without lines that says so', async () => {
    await write(operationOf(documentOf()));
    const [outcome] = await write(operationOf(documentOf({ lines: [], total_cost: '0' }), 'cancel', 'empty'));
    expect(outcome).toEqual({ status: 'cancelled', reference: `${base}.json` });
    expect(await json()).toMatchObject({ state: 'withdrawn', lines: [] });
    expect((await csv()).split('\r\n')).toHaveLength(2);
  });

  test('never shows half a file under its name, however often one looks while it is replaced', async () => {
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
    for (let count = 0; count < 20; count += 1) await write(operationOf(big, 'amend', `hash-${count}`));
    stop.abort();
    await Promise.all([watching, reading]);
    // 2,000 lots; in the CSV also the head and what follows the last line's end.
    expect([...sizes]).toEqual(['2000 2002']);
    expect(looks).toBeGreaterThan(0);
  });

  test('that may go no further is left when it is told to stop', async () => {
    const stop = new AbortController();
    stop.abort();
    const outcomes = await session.write([operationOf(documentOf())], stop.signal);
    expect(outcomes).toMatchObject([{ status: 'retry', error: { type: 'transient' } }]);
    expect(await readdir(folder)).toEqual([]);
  });

  test('keeps inside its folder whatever the key, and apart from other keys', async () => {
    const keys = ['../../etc/passwd', 'a/b', 'a_b', 'a%5f%b', 'A\u0000b', 'ä/ö', 'a//b'];
    await write(...keys.map((key) => operationOf(documentOf({ key }))));
    const files = (await readdir(folder)).filter((name) => name.endsWith('.json'));
    expect(files).toHaveLength(keys.length);
    for (const name of files) expect(name).toMatch(/^award_[A-Za-z0-9%_-]+\.json$/);
    expect(await readdir(dataDir)).toEqual(['inbox']);
  });
});

describe('lookup', () => {
  const look = () => session.lookup([documentOf()], never);

  test('finds what was written, and nothing else', async () => {
    expect(await look()).toEqual([]);
    await write(operationOf(documentOf()));
    expect(await look()).toEqual([{ key: documentOf().key, reference: `${base}.json`, contentHash: 'hash-1' }]);
    expect(await session.lookup([documentOf({ key: `${event}/${event}` })], never)).toEqual([]);
  });

  test('does not find a withdrawn award', async () => {
    await write(operationOf(documentOf()), operationOf(documentOf({ lines: [] }), 'cancel', 'empty'));
    expect(await look()).toEqual([]);
  });

  test.each([
    ['the CSV was replaced and the JSON not', () => writeFile(join(folder, `${base}.csv`), 'newer')],
    ['the CSV is gone', () => rm(join(folder, `${base}.csv`))],
    ['the JSON is damaged', () => writeFile(join(folder, `${base}.json`), '{"content_hash":"hash-1"')],
    ['the JSON is of somebody else', () => writeFile(join(folder, `${base}.json`), '[1]')],
  ])('does not vouch for the content when %s', async (_what, damage) => {
    await write(operationOf(documentOf()));
    await damage();
    expect(await look()).toEqual([{ key: documentOf().key, reference: `${base}.json`, contentHash: undefined }]);
  });
});

describe('a folder', () => {
  test('is made when it is not there, and relative to the data directory', async () => {
    expect(await readdir(dataDir)).toEqual(['inbox']);
    expect(await session.check()).toEqual([{ name: 'folder', ok: true, message: `${folder} can be written.` }]);
  });

  test('that cannot be made stops the start with a message that names it', async () => {
    await writeFile(join(dataDir, 'taken'), '');
    await expect(fileConnector.open({ directory: 'taken/inbox' }, { dataDir })).rejects.toMatchObject({
      code: 'invalid',
      publicMessage: `The folder ${join(dataDir, 'taken/inbox')} cannot be made.`,
    });
  });

  test('that went away or is in the way makes awards wait, and they are written when it is back', async () => {
    await rm(folder, { recursive: true });
    await writeFile(folder, 'a file');
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'retry', error: { type: 'transient' } }]);
    await rm(folder);
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'created' }]);
  });

  test('in which the JSON cannot be replaced leaves the outcome unknown: the CSV is there already', async () => {
    await mkdir(join(folder, `${base}.json`, 'in the way'), { recursive: true });
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'unknown' }]);
    expect((await readdir(folder)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  test.skipIf(process.getuid?.() === 0)('that this user may not write is reported', async () => {
    await chmod(folder, 0o500);
    expect(await session.check()).toMatchObject([{ ok: false, message: expect.stringContaining(folder) }]);
    expect(await write(operationOf(documentOf()))).toMatchObject([{ status: 'retry' }]);
    await chmod(folder, 0o700);
  });

  test("is freed at the start of what a kill left long ago; fresh and other people's files stay", async () => {
    const old = new Date(Date.now() - 3_600_000);
    for (const name of ['.award_x.json.0123.tmp', '.award_new.json.0123.tmp', '.other.tmp', 'award_x.json'])
      await writeFile(join(folder, name), '');
    for (const name of ['.award_x.json.0123.tmp', '.other.tmp', 'award_x.json'])
      await utimes(join(folder, name), old, old);
    await Promise.all([open(), open()]);
    expect((await readdir(folder)).sort()).toEqual(['.award_new.json.0123.tmp', '.other.tmp', 'award_x.json']);
  });
});
