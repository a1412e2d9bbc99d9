/** What is read from dropped files: only complete ones, each once and in order, and every good line of them. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'csv-stringify/sync';
import { array, assert, asyncProperty, constantFrom, integer, string } from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { TransientError } from '#connector/errors.ts';
import type { ReadPage } from '#connector/records.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { entriesIn } from '../../../connectors/file/csv-entries.ts';
import connector from '../../../connectors/file/index.ts';
import { failureOf } from '../../harness/failure.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const never = new AbortController().signal;
const record = { external_id: 'no', name: 'name' };
let folder: string;
beforeEach(() => {
  // In memory where the system has a file system for that: thousands of names are flushed.
  folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'dropped-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
});

async function open(supplier: Record<string, unknown> = {}, csv = {}, clock = createManualClock()) {
  const settings = connector.settings.parse({
    directory: folder,
    csv,
    read: { supplier: { files: 'v*.csv', quiet_seconds: 0, record, ...supplier } },
  });
  const session = await connector.open(settings, testContext({ clock }).context);
  onTestFinished(() => session.close());
  return session;
}

async function read(session: Awaited<ReturnType<typeof open>>, checkpoint?: string, pagesMax = 1_000) {
  const pages: ReadPage<'supplier'>[] = [];
  for await (const page of session.read?.('supplier', checkpoint, never) ?? []) {
    pages.push(page);
    if (pages.length === pagesMax) break;
  }
  return {
    pages,
    records: pages.flatMap(({ records }) => records),
    ids: pages.flatMap(({ records }) => records.map(({ external_id }) => external_id)),
    faults: pages.flatMap(({ faults = [] }) => faults),
    last: pages.at(-1)?.checkpoint,
  };
}

const drop = (name: string, text: string | Uint8Array) => writeFileSync(join(folder, name), text);
const csv = (...rows: string[]) => `no,name\n${rows.map((row) => `${row}\n`).join('')}`;
const waiting = () => readdirSync(folder).filter((name) => name !== 'taken' && !name.startsWith('.'));

describe('a file is taken', () => {
  test('once, also when its producer uses the name again, and every file in the order of taking', async () => {
    const session = await open();
    drop('v.csv', csv('1,A'));
    const first = await read(session);
    drop('v.csv', csv('2,B'));
    const second = await read(session, first.last);
    const third = await read(session, second.last);
    expect([first.ids, second.ids, third.ids]).toEqual([['1'], ['2'], []]);
    expect(waiting()).toEqual([]);
    // A new process, and one that begins anew.
    expect((await read(await open(), second.last)).ids).toEqual([]);
    expect((await read(await open())).ids).toEqual(['1', '2']);
  });

  test('after those that were written before it, whatever the names are: what was written last counts', async () => {
    for (const content of ['delta', 'whole']) {
      const place = join(folder, content);
      mkdirSync(place);
      for (const [name, text, day] of [
        ['v_30112026.csv', csv('1,Old'), '2026-11-30'],
        ['v_01122026.csv', csv('1,New'), '2026-12-01'],
      ] as const) {
        writeFileSync(join(place, name), text);
        utimesSync(join(place, name), new Date(day), new Date(day));
      }
      const { records } = await read(await open({ content, folder: content }));
      expect(records.map(({ name }) => name)).toEqual(['New']);
    }
  });

  test('also after the folder of taken files was emptied: its number goes on', async () => {
    const session = await open();
    drop('v.csv', csv('1,A'));
    const { last } = await read(session);
    rmSync(join(folder, 'taken'), { recursive: true });
    drop('v.csv', csv('2,B'));
    expect((await read(session, last)).ids).toEqual(['2']);
  });

  test('only when it has not changed for a while, and never under the name of an unfinished one', async () => {
    const clock = createManualClock();
    const session = await open({ quiet_seconds: 60 }, {}, clock);
    const touch = () => utimesSync(join(folder, 'v.csv'), new Date(clock.nowMs()), new Date(clock.nowMs()));
    drop('v.csv', csv('1,A'));
    for (const name of ['v2.csv.filepart', '.v3.csv', 'v4.csv.tmp', 'other.csv']) drop(name, csv('9,X'));
    touch();
    const { ids, last } = await read(session);
    clock.advance(59_000);
    drop('v.csv', csv('1,A', '2,B'));
    touch();
    const { ids: growing, last: later } = await read(session, last);
    clock.advance(60_000);
    expect([ids, growing, (await read(session, later)).ids]).toEqual([[], [], ['1', '2']]);
    expect(waiting()).toHaveLength(3);
  });

  test('by its marker, where one is set; a marker that a killed process left does not count for the next file', async () => {
    const session = await open({ marker: '.ok' });
    drop('v.csv', csv('1,A'));
    const { ids, last } = await read(session);
    drop('v.csv.ok', '');
    const { ids: marked, last: taken } = await read(session, last);
    expect([ids, marked, waiting()]).toEqual([[], ['1'], []]);
    drop('v.csv.ok', '');
    await read(session, taken);
    drop('v.csv', 'no,na');
    expect((await read(session, taken)).ids).toEqual([]);
  });

  test('and its last line counts only with a line end: the rest may still be missing', async () => {
    const session = await open();
    drop('v.csv', 'no,name\n1,A\n2,Beta Ltd. & Co');
    expect(await read(session)).toMatchObject({
      ids: ['1'],
      faults: [{ where: 'v.csv, line 3', why: expect.stringContaining('no line end') }],
    });
    const marked = await open({ marker: '.ok', folder: 'in' });
    mkdirSync(join(folder, 'in'));
    for (const [name, text] of [
      ['v.csv', 'no,name\n2,B'],
      ['v.csv.ok', ''],
    ] as const)
      drop(`in/${name}`, text);
    expect((await read(marked)).ids).toEqual(['2']);
  });
});

test('a read that was killed after any page goes on with the next line', async () => {
  const session = await open({ page: 2 });
  drop('v1.csv', csv('1,A', '2,B', '3,"C\nc"', '4,D', '5,E'));
  drop('v2.csv', csv('6,F'));
  const whole = await read(session);
  expect(whole.ids).toEqual(['1', '2', '3', '4', '5', '6']);
  for (const [index, { checkpoint }] of whole.pages.entries()) {
    const read_ = whole.pages
      .slice(0, index + 1)
      .flatMap(({ records }) => records.map(({ external_id }) => external_id));
    const rest = await read(await open({ page: 2 }), checkpoint);
    expect([...read_, ...rest.ids]).toEqual(['1', '2', '3', '4', '5', '6']);
  }
});

test('an older state that is read again never follows a newer one; of whole files only the newest is read', async () => {
  const session = await open({ page: 1 });
  for (const [n, name] of ['Old', 'Newer', 'Newest'].entries())
    drop(`v${n}.csv`, csv(`1,${name}`, `${n + 2},X`, `1,${name}`));
  const { records } = await read(session);
  expect(records.map(({ external_id, name }) => `${external_id} ${name}`)).toEqual(['2 X', '3 X', '4 X', '1 Newest']);
  const whole = await read(await open({ content: 'whole' }));
  expect(whole.ids).toEqual(['4', '1']);
});

describe('a bad line is named with its number, and loses no other', () => {
  test.each([
    ['a quotation mark that is never closed', '"2,B', 'quotation mark'],
    ['a quotation mark inside a cell', '2,5" pipe', 'quotation mark'],
    ['a cell too many', '2,B,C', '3 cells, and the header has 2'],
    ['no name', '2,', 'no name'],
    ['no number', ',B', 'no number'],
  ])('%s', async (_what, line, why) => {
    drop('v.csv', csv('1,A', line, '3,C', '4,"D ""d"""'));
    const { records, faults } = await read(await open());
    expect(records.map(({ external_id, name }) => [external_id, name])).toEqual([
      ['1', 'A'],
      ['3', 'C'],
      ['4', 'D "d"'],
    ]);
    expect(faults).toMatchObject([{ where: 'v.csv, line 3', why: expect.stringContaining(why) }]);
  });

  test('in another encoding', async () => {
    drop('v.csv', Buffer.concat([Buffer.from('no,name\n1,A\n2,'), Buffer.from([0xe9]), Buffer.from('\n3,Ü\n')]));
    expect(await read(await open())).toMatchObject({ ids: ['1', '3'], faults: [{ where: 'v.csv, line 3' }] });
    drop('v9.csv', Buffer.from([...Buffer.from('no;name\r\n4;'), 0x80, ...Buffer.from('\r\n')]));
    const session = await open({ content: 'whole' }, { delimiter: ';', encoding: 'windows-1252' });
    expect((await read(session)).records[0]?.name).toBe('€');
  });

  test('in JSON Lines', async () => {
    const lines = [
      '{"no":1,"name":"A","at":{"city":"Rome"},"rate":1.50}',
      '{"no":2,',
      '[]',
      '{"no":"4","name":"D"}',
      '',
    ];
    drop('v.csv', lines.join('\r\n'));
    const { records, faults } = await read(await open({ format: 'jsonl' }));
    expect(records).toMatchObject([{ external_id: '1', fields: { rate: '1.50' } }, { external_id: '4' }]);
    expect(faults.map(({ where }) => where)).toEqual(['v.csv, line 2', 'v.csv, line 3']);
  });
});

describe('what programs write is read', () => {
  const utf16 = (text: string, isBigEndian: boolean) => {
    const bytes = Buffer.from(`\uFEFF${text}`, 'utf16le');
    return isBigEndian ? bytes.swap16() : bytes;
  };
  const text = 'no;name\n1;Łódź\n2;"B\nb"\n';
  test.each<[string, string | Uint8Array, object?]>([
    ['lines that end in CRLF', text.replaceAll('\n', '\r\n')],
    ['lines that end in LF', text],
    ['UTF-16 with a byte order mark (Excel: Unicode text)', utf16(text, false)],
    ['UTF-16, big endian', utf16(text, true)],
    ['UTF-8 with a byte order mark, whatever the settings say', `\uFEFF${text}`, { encoding: 'windows-1252' }],
  ])('%s', async (_what, bytes, csvSettings = {}) => {
    drop('v.csv', bytes);
    const { records, faults } = await read(await open({}, { delimiter: ';', ...csvSettings }));
    expect([records.map(({ external_id, name }) => [external_id, name]), faults]).toEqual([
      [
        ['1', 'Łódź'],
        ['2', 'B\nb'],
      ],
      [],
    ]);
  });
});

describe('a file that cannot be read as a whole is refused: it stays, and the read ends with an error that names it', () => {
  /** What was read before the error, and the error. */
  async function refusal(session: Awaited<ReturnType<typeof open>>, checkpoint?: string) {
    const pages: ReadPage<'supplier'>[] = [];
    const reading = (async () => {
      for await (const page of session.read?.('supplier', checkpoint, never) ?? []) pages.push(page);
    })();
    const error = await failureOf(TransientError, reading);
    const ids = pages.flatMap(({ records }) => records.map(({ external_id }) => external_id));
    return { message: error.message, ids, last: pages.at(-1)?.checkpoint };
  }

  test.each<[string, string, string]>([
    [
      'an error message in place of an export',
      'ORA-01017: invalid username/password\n',
      'the header has no column "no"',
    ],
    ['a header that lacks a column', 'number,name\n1,A\n', 'the header has no column "no"'],
    ['a header with a column twice', 'no,name,no\n1,A,2\n', 'the header has the column "no" twice'],
    ['nothing', '', 'it has no header'],
    ['half a header', 'no,na', 'the header has no line end'],
  ])('%s', async (_what, text, why) => {
    const session = await open();
    drop('v1.csv', text);
    drop('v2.csv', csv('2,B'));
    const { message, ids, last } = await refusal(session);
    expect(message).toContain(`v1.csv: ${why}`);
    expect([ids, waiting()]).toEqual([['2'], ['v1.csv']]);
    // As long as it is there; a corrected one is read.
    expect((await refusal(session, last)).message).toContain('v1.csv');
    drop('v1.csv', csv('1,A'));
    expect((await read(session, last)).ids).toEqual(['1']);
  });

  test('a link, a FIFO and a folder: nothing outside is read, and nothing hangs', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'outside-'));
    onTestFinished(() => rmSync(outside, { recursive: true, force: true }));
    writeFileSync(join(outside, 'secret.csv'), csv('9,Secret'));
    symlinkSync(join(outside, 'secret.csv'), join(folder, 'v1.csv'));
    execFileSync('mkfifo', [join(folder, 'v2.csv')]);
    mkdirSync(join(folder, 'v3.csv'));
    drop('v4.csv', csv('4,D'));
    const { message, ids } = await refusal(await open());
    expect(message).toMatch(/v1\.csv: .*not a regular file; v2\.csv: .*; v3\.csv: /);
    expect([ids, waiting().toSorted()]).toEqual([['4'], ['v1.csv', 'v2.csv', 'v3.csv']]);
  });

  test('names with characters that a screen obeys, and names that are too long', async () => {
    drop('v\u202Evsc.csv', csv('1,A'));
    drop(`v${'x'.repeat(220)}.csv`, csv('2,B'));
    const { message, ids } = await refusal(await open());
    expect(message).toMatch(/more than 200 bytes; v\\u\{202e\}vsc\.csv: its name has characters without a shape/);
    expect(ids).toEqual([]);
  });

  test('one that is put in the place of a taken file is no hang either', async () => {
    const session = await open();
    drop('v.csv', csv('1,A'));
    const { last } = await read(session);
    const taken = join(folder, 'taken');
    execFileSync('mkfifo', [join(taken, '00000009-00000000-v.csv')]);
    expect(await read(session, last)).toMatchObject({
      ids: [],
      faults: [{ where: 'v.csv, line 1', why: 'it is not a regular file' }],
    });
    rmSync(taken, { recursive: true });
    symlinkSync(tmpdir(), taken);
    await expect(read(session, last)).rejects.toMatchObject({ type: 'config' });
  });
});

test('a thousand links in front of a file do not keep it from being read', async () => {
  for (let n = 0; n < 1_010; n += 1) symlinkSync('/dev/zero', join(folder, `v0${n}.csv`));
  drop('v9.csv', csv('1,A'));
  const ids: string[] = [];
  const reading = (async () => {
    for await (const { records } of (await open()).read?.('supplier', undefined, never) ?? [])
      ids.push(...records.map(({ external_id }) => external_id));
  })();
  expect((await failureOf(TransientError, reading)).message).toContain('; and 1007 more.');
  expect(ids).toEqual(['1']);
});

test('a name fits the settings in either form of Unicode', async () => {
  drop('v-Händler.csv'.normalize('NFD'), csv('1,A'));
  expect((await read(await open({ files: 'v-Händler*.csv'.normalize('NFC') }))).ids).toEqual(['1']);
});

test('a file whose name is not in UTF-8 is refused by name, and keeps no other from being read', async () => {
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/v-M`), Buffer.of(0xfc), Buffer.from('ller.csv')]), csv('1,A'));
  drop('v9.csv', csv('2,B'));
  const ids: string[] = [];
  const reading = (async () => {
    for await (const { records } of (await open()).read?.('supplier', undefined, never) ?? [])
      ids.push(...records.map(({ external_id }) => external_id));
  })();
  expect((await failureOf(TransientError, reading)).message).toContain('v-M\uFFFDller.csv: its name is not in UTF-8');
  expect(ids).toEqual(['2']);
});

test('of thousands of files a thousand are taken at once, and the rest by the next reads', async () => {
  const session = await open();
  for (let n = 1_000; n < 2_020; n += 1) drop(`v${n}.csv`, csv(`${n},X`));
  const counts: number[] = [];
  let last: string | undefined;
  for (let round = 0; round < 2; round += 1) {
    const { ids, last: next } = await read(session, last, 2_000);
    counts.push(ids.length);
    last = next;
  }
  expect(counts).toEqual([1_000, 20]);
});

/** Reads bytes in pieces of any size. */
async function entriesOf(bytes: Uint8Array, delimiter: string | undefined) {
  const settings = { encoding: 'utf-8', delimiter, endsAnyhow: false } as const;
  const found: { line: number; cells: readonly string[] | undefined; fault: string | undefined }[] = [];
  const piece = async ({ from, to }: { from: number; to: number }) => bytes.subarray(from, to);
  for await (const { line, cells, fault } of entriesIn(piece, settings)) found.push({ line, cells, fault });
  return found;
}

test('any table that another program writes is read cell by cell', async () => {
  const cell = string({ unit: constantFrom('a', 'ß', '"', ',', '\n', ' ', '東'), maxLength: 6 });
  const table = integer({ min: 1, max: 4 }).chain((width) =>
    array(array(cell, { minLength: width, maxLength: width })),
  );
  await assert(
    asyncProperty(table, async (rows) => {
      const wanted = rows.filter((cells) => cells.join('').trim() !== '' || cells.length > 1);
      const text = stringify(wanted, { quoted: true, record_delimiter: '\r\n' });
      const found = await entriesOf(Buffer.from(text), ',');
      // A line break inside a cell is written and read as \n.
      expect(found.map(({ cells }) => cells)).toEqual(wanted);
    }),
    { numRuns: 200 },
  );
});

test('a line without an end is a fault and not a full memory', async () => {
  const bytes = Buffer.from(`no,name\n1,${'x'.repeat(3 * 1024 * 1024)}\n2,B\n`);
  const found = await entriesOf(bytes, ',');
  expect(found.filter(({ fault }) => fault === undefined).map(({ cells }) => cells)).toEqual([
    ['no', 'name'],
    ['2', 'B'],
  ]);
  expect(new Set(found.filter(({ fault }) => fault).map(({ line }) => line))).toEqual(new Set([2]));
});

test('a large file is read in pages with a flat memory', async () => {
  const path = join(folder, 'v.csv');
  writeFileSync(path, csv(...Array.from({ length: 20_000 }, (_, n) => `${n},Supplier ${n} ${'x'.repeat(100)}`)));
  expect(statSync(path).size).toBeGreaterThan(2_000_000);
  const { pages, ids } = await read(await open({ page: 1_000 }));
  expect([pages.length, new Set(ids).size, Math.max(...pages.map(({ records }) => records.length))]).toEqual([
    20, 20_000, 1_000,
  ]);
});
