/** Requisitions in dropped files: all rows of one together, or none of it; and what the ERP is told of them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import { TransientError } from '#connector/errors.ts';
import type { ReadPage } from '#connector/records.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { parseInput } from '#platform/input.ts';
import connector from '../../../connectors/file/index.ts';
import { failureOf } from '../../harness/failure.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const never = new AbortController().signal;
const record = {
  reference_id: 'no',
  name: 'title',
  open: { at: 'status', is: ['r'] },
  items: { line: 'pos', name: 'text' },
};
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dropped-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
});

const settingsOf = (requisition: object = {}, csv = {}, more = {}) => ({
  directory: folder,
  csv,
  ...more,
  read: { requisition: { files: 'n*.csv', quiet_seconds: 0, record, ...requisition } },
});

async function open(requisition: object = {}, csv = {}, more = {}) {
  const settings = connector.settings.parse(settingsOf(requisition, csv, more));
  const session = await connector.open(settings, testContext({ clock: createManualClock() }).context);
  onTestFinished(() => session.close());
  return session;
}
type Session = Awaited<ReturnType<typeof open>>;

async function read(session: Session, checkpoint?: string) {
  const pages: ReadPage<'requisition'>[] = [];
  for await (const page of session.read?.('requisition', checkpoint, never) ?? []) pages.push(page);
  return {
    pages,
    items: pages.flatMap(({ records }) =>
      records.map(({ reference_id: no, items, open: isOpen }) => [no, isOpen, items.map(({ line }) => line).join()]),
    ),
    faults: pages.flatMap(({ faults = [] }) => faults.map(({ where, key, why }) => [where, key, why])),
    last: pages.at(-1)?.checkpoint,
  };
}

async function listed(session: Session): Promise<string[]> {
  const numbers: string[] = [];
  for await (const page of session.openRequisitions?.(never) ?? []) numbers.push(...page);
  return numbers;
}

const drop = (name: string, ...rows: string[]) =>
  writeFileSync(join(folder, name), `no,title,status,pos,text,quantity\n${rows.map((row) => `${row}\n`).join('')}`);

describe('rows with one number are one requisition', () => {
  test('whose items are its rows, in pages of any size', async () => {
    const rows = [
      'PR-1,Steel,r,10,Bolt,4',
      'PR-1,Steel,r,20,Nut,8',
      'PR-2,Paint,r,10,Red,1',
      'PR-3,Wood,done,10,Board,2',
    ];
    drop('n.csv', ...rows);
    const session = await open({ page: 1 });
    const { pages, items, faults } = await read(session);
    expect([items, faults]).toEqual([
      [
        ['PR-1', true, '10,20'],
        ['PR-2', true, '10'],
        ['PR-3', false, '10'],
      ],
      [],
    ]);
    expect(pages[0]?.records[0]).toMatchObject({
      name: 'Steel',
      items: [{ name: 'Bolt', quantity: '4' }, { quantity: '8' }],
    });
    // Killed after any page, the next process goes on behind it.
    for (const [index, { checkpoint }] of pages.entries())
      expect((await read(await open({ page: 1 }), checkpoint)).items).toEqual(items.slice(index + 1));
  });

  test('of which a row that is not open is no item; without any that is, it is not open', async () => {
    drop('n.csv', 'PR-1,Steel,r,10,Bolt,4', 'PR-1,Steel,done,20,Nut,8', 'PR-2,Paint,done,10,Red,1');
    expect((await read(await open())).items).toEqual([
      ['PR-1', true, '10'],
      ['PR-2', false, '10'],
    ]);
  });

  test('and a row that cannot be read spoils those beside it, as it may be a line of theirs, and no other', async () => {
    drop(
      'n.csv',
      'PR-1,Steel,r,10,Bolt,4',
      'PR-2,Paint,r,10,Red,1',
      'PR-2,Paint,r,20,"Blue,1',
      'PR-3,Wood,r,10,Board,2',
      'PR-4,Glass,r,10,Pane,2',
      ',Glass,r,20,Pane,2',
    );
    const { items, faults } = await read(await open());
    expect(items).toEqual([['PR-1', true, '10']]);
    const beside = (line: number) => `line ${line} beside it cannot be read, and may be a line of it`;
    expect(faults).toEqual([
      ['n.csv, line 3', 'PR-2', beside(4)],
      ['n.csv, line 4', undefined, expect.stringContaining('quotation mark')],
      ['n.csv, line 5', 'PR-3', beside(4)],
      ['n.csv, line 6', 'PR-4', beside(7)],
      ['n.csv, line 7', undefined, 'it has no number'],
    ]);
  });

  test('and rows that do not stand together make none of it, also where a read goes on in the middle', async () => {
    drop('n.csv', 'PR-1,Steel,r,10,Bolt,4', 'PR-2,Paint,r,10,Red,1', 'PR-1,Steel,r,20,Nut,8', 'PR-3,Wood,r,10,Board,2');
    const session = await open({ page: 1 });
    const { pages, items, faults } = await read(session);
    expect(items.map(([no]) => no)).toEqual(['PR-2', 'PR-3']);
    expect(faults).toEqual([['n.csv, line 4', 'PR-1', expect.stringContaining('do not stand together')]]);
    expect((await read(session, pages[1]?.checkpoint)).faults.map(([, key]) => key)).toEqual(['PR-1']);
    // A newer file that has it in order counts.
    drop('n.csv', 'PR-1,Steel,r,10,Bolt,4', 'PR-1,Steel,r,20,Nut,8');
    expect(await read(session, pages.at(-1)?.checkpoint)).toMatchObject({
      items: [['PR-1', true, '10,20']],
      faults: [],
    });
  });

  test('with amounts and days as the settings of the CSV say', async () => {
    const day = { ...record, needed_by: 'day', items: { ...record.items, quantity: 'amount' } };
    const csv = { delimiter: ';', decimal_separator: ',', dates: 'DD.MM.YYYY' };
    const rows = [
      'PR-1;A;r;10;Bolt;4,50;31.12.2030',
      'PR-2;B;r;10;Nut;1.000;31.12.2030',
      'PR-3;C;r;10;Nut;1;2030-12-31',
      'PR-4;D;r;10;Nut;12;',
    ];
    writeFileSync(join(folder, 'n.csv'), `no;title;status;pos;text;amount;day\n${rows.join('\n')}\n`);
    const { pages, faults } = await read(await open({ record: day }, csv));
    expect(pages[0]?.records).toMatchObject([
      { reference_id: 'PR-1', needed_by: '2030-12-31T00:00:00.000000Z', items: [{ quantity: '4.5' }] },
      { reference_id: 'PR-4', items: [{ quantity: '12' }] },
    ]);
    expect(faults).toEqual([
      // One, or a thousand.
      [
        'n.csv, line 3',
        'PR-2',
        expect.stringContaining('"1.000": with csv.decimal_separator "," an amount has no point'),
      ],
      ['n.csv, line 4', 'PR-3', expect.stringContaining('DD.MM.YYYY')],
    ]);
  });
});

describe('the open ones are those of the newest whole file', () => {
  test('and one that is not in it any more is missing, whatever older files had', async () => {
    const session = await open({ content: 'whole' });
    drop('n1.csv', 'PR-1,Steel,r,10,Bolt,4', 'PR-2,Paint,r,10,Red,1', 'PR-3,Wood,done,10,Board,2');
    const { last } = await read(session);
    expect(await listed(session)).toEqual(['PR-1', 'PR-2']);
    drop('n2.csv', 'PR-2,Paint,r,10,Red,1');
    await read(session, last);
    expect(await listed(session)).toEqual(['PR-2']);
  });

  test('where an entry cannot be read it counts as open under its number, and without one nothing is known', async () => {
    const session = await open({ content: 'whole' });
    drop('n1.csv', 'PR-1,Steel,r,10,Bolt,many', 'PR-2,Paint,r,10,Red,1');
    const { last } = await read(session);
    expect(await listed(session)).toEqual(['PR-1', 'PR-2']);
    drop('n2.csv', 'PR-2,Paint,r,10,Red,1', 'PR-3,"Wood');
    await read(session, last);
    expect(await failureOf(TransientError, listed(session))).toMatchObject({
      message: expect.stringMatching(/^n2\.csv, line 3: .*is not known: drop a corrected file\.$/),
    });
  });

  test('and without a file, or with one of another form, it is an error and not an empty list', async () => {
    const session = await open({ content: 'whole' });
    await read(session);
    expect((await failureOf(TransientError, listed(session))).message).toContain('has had no file like n*.csv');
    // Such a file is refused, and an older one in the folder of taken files is known to be of another form.
    drop('n.csv', 'PR-1,Steel,r,10,Bolt,4');
    await read(session);
    const [taken = ''] = readdirSync(join(folder, 'taken'));
    writeFileSync(join(folder, 'taken', taken), 'number,title\n');
    expect((await failureOf(TransientError, listed(session))).message).toContain('the header has no column "no"');
  });

  test('and files of changes only list nothing', async () => {
    expect(await open({ content: 'delta' })).not.toHaveProperty('openRequisitions');
  });
});

test('two intakes that take from one folder read their own files only', async () => {
  const settings = connector.settings.parse({
    ...settingsOf(),
    read: {
      requisition: { files: 'n*.csv', quiet_seconds: 0, record },
      supplier: { files: 'v*.csv', quiet_seconds: 0, record: { external_id: 'no', name: 'title' } },
    },
  });
  const session = await connector.open(settings, testContext({ clock: createManualClock() }).context);
  onTestFinished(() => session.close());
  drop('n.csv', 'PR-1,Steel,r,10,Bolt,4');
  drop('v.csv', 'V-1,Acme,,,,');
  expect((await read(session)).items).toEqual([['PR-1', true, '10']]);
  const suppliers = [];
  for await (const { records } of session.read?.('supplier', undefined, never) ?? [])
    suppliers.push(...records.map(({ external_id: id }) => id));
  expect(suppliers).toEqual(['V-1']);
});

describe('the ERP is told', () => {
  const news = (n: number, more: Partial<Acknowledgement> = {}): Acknowledgement => ({
    requisition: `PR-${n}`,
    status: 'created',
    event: { kind: 'event', id: 'e1', name: '=Steel', reference: 'PR-1, PR-2', url: 'https://s.example/e1' },
    text: `The event "Steel" was made of PR-${n}`,
    idempotencyKey: `key-${n}`,
    ...more,
  });
  const told = () => readdirSync(join(folder, 'requisition-news')).toSorted();
  const textOf = (name: string) => readFileSync(join(folder, 'requisition-news', name), 'utf8');

  test('by one file for each call, and by none again under the same key, also when it was imported and removed', async () => {
    const session = await open({ acknowledge: true });
    expect(await session.acknowledge?.([news(1), news(2)], never)).toMatchObject([
      { status: 'updated', reference: 'requisition-news/PR-1' },
      { status: 'updated' },
    ]);
    const [first = ''] = told();
    expect(first).toMatch(/^news_\d{8}T\d{6}Z_\d{13}-[0-9a-f]{12}\.csv$/);
    // A name that a spreadsheet would run is quoted.
    expect(textOf(first)).toBe(
      'requisition,status,event_kind,event_id,event_name,event_reference,link,reason,text,news_key\r\n' +
        `PR-1,created,event,e1,'=Steel,"PR-1, PR-2",https://s.example/e1,,"The event ""Steel"" was made of PR-1",key-1\r\n` +
        `PR-2,created,event,e1,'=Steel,"PR-1, PR-2",https://s.example/e1,,"The event ""Steel"" was made of PR-2",key-2\r\n`,
    );
    rmSync(join(folder, 'requisition-news', first));
    const later = await open({ acknowledge: true });
    expect(await later.acknowledge?.([news(1), news(2), news(3)], never)).toMatchObject([
      { status: 'unchanged' },
      { status: 'unchanged' },
      { status: 'updated' },
    ]);
    const [second = '', ...more] = told();
    expect([textOf(second).split('\r\n').length, more]).toEqual([3, []]);
  });

  test('in JSON Lines as well, with its reason', async () => {
    const session = await open({ acknowledge: true }, {}, { format: 'jsonl' });
    const { event: _none, ...failed } = news(1, { status: 'failed', reason: 'no' });
    await session.acknowledge?.([failed], never);
    const [name = ''] = readdirSync(join(folder, 'requisition-news'));
    expect(JSON.parse(readFileSync(join(folder, 'requisition-news', name), 'utf8'))).toEqual({
      requisition: 'PR-1',
      status: 'failed',
      reason: 'no',
      text: 'The event "Steel" was made of PR-1',
      news_key: 'key-1',
    });
  });

  test('what the encoding cannot hold is refused alone', async () => {
    const session = await open({ acknowledge: true }, { encoding: 'windows-1252' });
    expect(await session.acknowledge?.([news(1, { text: 'Łódź' }), news(2)], never)).toMatchObject([
      { status: 'rejected', error: { type: 'data', message: expect.stringContaining('PR-1: column text') } },
      { status: 'updated' },
    ]);
  });
});

describe('settings are refused', () => {
  const issuesOf = (given: object) => {
    try {
      parseInput(connector.settings, given, 'The settings');
      return [];
    } catch (error) {
      return (error as { issues: { path: string; message: string }[] }).issues.map(
        ({ path, message }) => `${path}: ${message}`,
      );
    }
  };
  test.each<[string, object, string]>([
    ['JSON Lines without the place of the items', { format: 'jsonl' }, 'read.requisition.record.items.at: is missing'],
    [
      'a path that is written wrong',
      { format: 'jsonl', record: { ...record, items: { at: 'items', quantity: 'a b' } } },
      'read.requisition.record: a b: must be written as',
    ],
    [
      'requisitions in the folder of the news',
      { folder: 'requisition-news' },
      'read.requisition.folder: must be another',
    ],
    [
      'a column with the list of items',
      { record: { ...record, items: { at: 'items' } } },
      'read.requisition.record.items.at: only with jsonl',
    ],
  ])('%s', (_what, given, words) => {
    expect(issuesOf(settingsOf(given))).toEqual([expect.stringContaining(words)]);
  });

  test('suppliers and requisitions of the same files', () => {
    const both = settingsOf();
    const supplier = { files: 'n*.csv', record: { external_id: 'no', name: 'name' } };
    expect(issuesOf({ ...both, read: { ...both.read, supplier } })).toEqual([
      expect.stringContaining('other names of files'),
    ]);
  });
});
