/** CSV and JSON Lines as an ERP wants them: columns, separators, encodings, and refused documents. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { AwardDocument, Document, QuotationDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import fileConnector from '../../../connectors/file/index.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { operation } from './operations.ts';

const never = new AbortController().signal;
const event = {
  id: 'e1',
  name: 'Chairs',
  reference_id: 'R-1',
  type: 'RFQ',
  is_test: false,
  tags: [{ name: 'Plant', value: '1000' }],
};

function awardOf(more: Partial<AwardDocument> = {}): AwardDocument {
  return {
    kind: 'award',
    key: 'e1/s1',
    event,
    supplier: { id: 's1', external_id: '4711', name: 'Müller' },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: '-12.5',
    lines: [
      {
        lot: 'A',
        share: '0.5',
        quantity: '1234.5',
        unit_price: '-2.05',
        cost: '12.50',
        values: [
          { column: 'Unit Price', value: '2.50' },
          { column: 'Lead. time', value: '=1+1' },
        ],
        fields: { Material: '000123', Date: '2030-01-31T23:59:59.999999Z' },
      },
    ],
    fields: { Org: 'P1', Material: 'of the document' },
    ...more,
  };
}

/** Writes documents; returns the outcomes and the bytes of each file by its name. */
async function written(settings: Record<string, unknown>, ...documents: Document[]) {
  const dataDir = await scratchFolder();
  const session = await fileConnector.open(
    fileConnector.settings.parse({
      directory: 'out',
      layout: 'batch',
      ...settings,
    }),
    testContext({ dataDir }).context,
  );
  const file = { name: 'plan.pdf', read: async () => Buffer.from('bytes') };
  const outcomes = await session.write(
    documents.map((document) => operation('create', { file: document.kind === 'file' ? file : undefined }, document)),
    never,
  );
  const files = new Map<string, Buffer>();
  for (const name of (await readdir(join(dataDir, 'out'))).sort())
    if (/\.(csv|jsonl)$/.test(name))
      files.set(
        name.replace(/\d{8}T\d{6}Z_\d{13}-[0-9a-f]{12}/, '<sequence>'),
        await readFile(join(dataDir, 'out', name)),
      );
  return { outcomes, files, text: files.get('award_<sequence>.csv')?.toString('utf8') ?? '' };
}

const columns = [
  { name: 'WERKS', from: 'event.tags[Plant]' },
  { name: 'EKORG', from: 'fields.Org' },
  { name: 'LIFNR', from: 'supplier.external_id' },
  { name: 'MATNR', from: 'line.fields.Material' },
  { name: 'MENGE', from: 'line.quantity' },
  { name: 'NETPR', from: 'line.unit_price' },
  { name: 'BSART', value: 'NB' },
  { name: 'EINDT', from: 'line.fields.Date', as: 'date' },
  { name: 'TEXT', from: 'line.values[Lead. time]' },
  { name: 'ZEILE', from: 'line.values[Unit Price]', as: 'decimal' },
  { name: 'LOEKZ', from: 'action' },
];

test('the settings choose and name columns, decimals, dates and separators', async () => {
  const { text } = await written(
    {
      columns,
      csv: { delimiter: ';', decimal_separator: ',', dates: 'DD.MM.YYYY', formulas: 'keep' },
    },
    awardOf(),
  );
  expect(text).toBe(
    'WERKS;EKORG;LIFNR;MATNR;MENGE;NETPR;BSART;EINDT;TEXT;ZEILE;LOEKZ\r\n' +
      '1000;P1;4711;000123;1234,5;-2,05;NB;31.01.2030;=1+1;2,50;create\r\n',
  );
});

test('by default cells that a spreadsheet would take for formulas are quoted; numbers stay', async () => {
  const texts = ['=1', '+1', '-1', '@x', '\tx', '＝1', '-2.5', '+a', '- 1', '1=1', '-1e5'];
  const lines = texts.map((lot) => ({ lot, share: '1', cost: '-1.5', values: [] }));
  const settings = {
    columns: [
      { name: 'lot', from: 'line.lot' },
      { name: 'cost', from: 'line.cost' },
      { name: 'action', from: 'action' },
    ],
    csv: { header: false },
  };
  const { text } = await written(settings, awardOf({ lines }));
  expect(text.split('\r\n').slice(0, -1)).toEqual(
    ["'=1", "'+1", '-1', "'@x", "'\tx", "'＝1", '-2.5', "'+a", "'- 1", '1=1', "'-1e5"].map(
      (cell) => `${cell},-1.5,create`,
    ),
  );
});

test('cells with quotes, separators or any line ends are quoted', async () => {
  const lines = ['a"b', 'a,b', 'a\nb', 'a\rb', 'a b'].map((lot) => ({ lot, share: '1', cost: '1', values: [] }));
  const chosen = [
    { name: 'lot', from: 'line.lot' },
    { name: 'state', from: 'state' },
  ];
  expect((await written({ columns: chosen, csv: { header: false } }, awardOf({ lines }))).text).toBe(
    '"a""b",awarded\r\n"a,b",awarded\r\n"a\nb",awarded\r\n"a\rb",awarded\r\na b,awarded\r\n',
  );
});

test.each([
  ['windows-1252', 'Žluť 5 €', undefined],
  ['windows-1252', '5 € – „ü“', [0x35, 0x20, 0x80, 0x20, 0x96, 0x20, 0x84, 0xfc, 0x93]],
  ['utf-8-bom', 'ü', [0xef, 0xbb, 0xbf, 0xc3, 0xbc]],
  ['utf-8', 'ü', [0xc3, 0xbc]],
] as const)('%s encodes "%s", or refuses only that document and names the character', async (encoding, name, bytes) => {
  const chosen = [
    { name: 'N', from: 'supplier.name' },
    { name: 'S', from: 'state' },
  ];
  const bad = awardOf({ supplier: { id: 's1', name } });
  const good = awardOf({ key: 'e1/s2', supplier: { id: 's2', name: 'plain' } });
  const { outcomes, files } = await written({ columns: chosen, csv: { encoding, header: false } }, bad, good);
  const content = files.get('award_<sequence>.csv');
  const refused = {
    type: 'data',
    message: expect.stringMatching(/e1\/s1.*column N.*"ť" \(U\+0165\)/) as string,
  };
  const first = bytes ? { status: 'created' } : { status: 'rejected', error: refused };
  expect(outcomes).toMatchObject([first, { status: 'created' }]);
  const plain = Buffer.from('plain,awarded\r\n');
  const expected = bytes ? Buffer.concat([Buffer.from(bytes), Buffer.from(',awarded\r\n'), plain]) : plain;
  expect(content).toEqual(expected);
});

test('a document without a required value, or with a text for a number, is refused with the column’s name', async () => {
  const needs = [
    { name: 'MATNR', from: 'line.fields.Nothing', required: true },
    { name: 'S', from: 'state' },
  ];
  expect((await written({ columns: needs }, awardOf())).outcomes).toMatchObject([
    {
      status: 'rejected',
      error: { message: 'award e1/s1, lot A: column MATNR needs a value, and the document has none.' },
    },
  ]);
  const number = [
    { name: 'PRICE', from: 'line.values[Lead. time]', as: 'decimal' },
    { name: 'S', from: 'state' },
  ];
  expect((await written({ columns: number }, awardOf())).outcomes).toMatchObject([
    {
      status: 'rejected',
      error: { message: expect.stringContaining('decimal number, and the document has "=1+1"') as string },
    },
  ]);
});

test('a withdrawn document is a row with its state, and each bid of an auction is a row', async () => {
  const quotation: QuotationDocument = {
    kind: 'quotation',
    key: 'e1/s1',
    event,
    supplier: { id: 's1', name: 'x' },
    currency: 'EUR',
    exchange_rates: [],
    lines: [{ lot: 'A', bids: [{ value: '9', volume: '100' }, { value: '8' }], values: [] }],
  };
  const chosen = ['state', 'line.lot', 'bid.value', 'bid.volume'].map((from) => ({ name: from, from }));
  const two = await written({ columns: chosen }, quotation, { ...quotation, key: 'e1/s2', lines: [] });
  expect(two.files.get('quotation_<sequence>.csv')?.toString()).toBe(
    'state,line.lot,bid.value,bid.volume\r\ncurrent,A,9,100\r\ncurrent,A,8,\r\ncurrent,,,\r\n',
  );
});

test('a withdrawal has no lines and no mapped fields, and is written where columns of them are required', async () => {
  const dataDir = await scratchFolder();
  const settings = fileConnector.settings.parse({
    directory: 'out',
    layout: 'batch',
    csv: { header: false },
    columns: [
      { name: 'LIFNR', from: 'supplier.external_id', required: true },
      { name: 'MENGE', from: 'line.quantity', required: true },
      { name: 'EKORG', from: 'fields.Org', required: true },
      { name: 'STATE', from: 'state' },
    ],
  });
  const session = await fileConnector.open(settings, testContext({ dataDir }).context);
  const withdrawal = operation('cancel', { file: undefined }, awardOf({ lines: [], fields: undefined }));
  expect(await session.write([withdrawal], never)).toMatchObject([{ status: 'cancelled' }]);
  const name = (await readdir(join(dataDir, 'out'))).find((entry) => entry.endsWith('.csv')) ?? '';
  expect(await readFile(join(dataDir, 'out', name), 'utf8')).toBe('4711,,,withdrawn\r\n');
});

test('JSON Lines have one whole document per line', async () => {
  const { files } = await written({ format: 'jsonl' }, awardOf(), awardOf({ key: 'e1/s2' }));
  const lines = (files.get('award_<sequence>.jsonl')?.toString() ?? '').split('\n');
  expect(lines).toHaveLength(3);
  expect(JSON.parse(lines[1] ?? '')).toEqual({
    action: 'create',
    state: 'awarded',
    content_hash: expect.any(String) as string,
    ...awardOf({ key: 'e1/s2' }),
  });
});

test.each([
  [{ columns: [{ name: 'x', from: 'line.colour' }] }, 'columns', 'line has no member colour; it has lot'],
  [{ columns: [{ name: 'x', from: 'colour' }] }, 'columns', 'is in no document'],
  [
    { columns: [{ name: 'x', from: 'line.values' }] },
    'columns',
    'line.values is a list: say which with line.values[<column>]',
  ],
  [{ columns: [{ name: 'x', from: 'event.name' }] }, 'columns', 'action or state'],
  [
    {
      columns: [
        { name: 'x', from: 'state' },
        { name: 'x', from: 'action' },
      ],
    },
    'columns',
    'twice',
  ],
  [{ columns: [{ name: 'x' }] }, 'columns', 'either from or value'],
  [{ csv: { dates: 'DD/MMM' } }, 'csv', 'YYYY'],
  [{ sftp: { host: 'h', user: 'u', password: 'p' } }, 'sftp', 'another server could pose as this one'],
  [{ sftp: { host: 'h', user: 'u', fingerprint: `SHA256:${'a'.repeat(43)}` } }, 'sftp', 'set a password'],
  [{ sftp: { host: 'h', user: 'u', password: 'p', fingerprint: 'ab:cd' } }, 'sftp', 'ssh-keygen'],
] as const)('settings that cannot work are refused by name: %j', (given, path, message) => {
  const parsed = fileConnector.settings.safeParse({ directory: 'out', layout: 'batch', ...given });
  const issues = parsed.error?.issues ?? [];
  expect(issues.map((issue) => String(issue.path[0]))).toContain(path);
  expect(JSON.stringify(issues)).toContain(message.replaceAll('"', '\\"'));
});
