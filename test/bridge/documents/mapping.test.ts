import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { compileMapping } from '#bridge/documents/apply-mapping.ts';
import { mappingSettings } from '#bridge/documents/mapping-settings.ts';
import {
  type AwardDocument,
  type Document,
  type DocumentKind,
  documentSchemas,
  type RfiAnswersDocument,
  type SupplierDocument,
} from '#connector/documents.ts';
import { errorText } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';

const head = { id: 'e', name: 'Chairs', reference_id: 'R-1', type: 'RFQ', is_test: false };
const award: AwardDocument = {
  kind: 'award',
  key: 'e/s',
  event: {
    ...head,
    tags: [
      { name: 'Cost Center', value: '4711' },
      { name: 'a[b]', value: 'bracket' },
      { name: 'a"\\b', value: 'quote' },
    ],
  },
  supplier: { id: 's', name: 'Ärmel' },
  currency: 'EUR',
  exchange_rates: [{ code: 'USD', exchange_rate: '0.9' }],
  total_cost: '3',
  lines: [
    {
      lot: 'A',
      share: '0.5',
      cost: '1',
      values: [
        { column: 'Annual Volume', value: ' 1200.50 ', currency: 'EUR' },
        { column: 'Delivery', value: '2030-01-31T23:30:00-05:00' },
        { column: 'Empty', value: ' ' },
        { column: 'Incoterm', value: 'DAP' },
      ],
    },
    { lot: 'B', share: '1', cost: '2', values: [{ column: 'Annual Volume', value: '1,5' }] },
  ],
};
const answers: RfiAnswersDocument = {
  kind: 'rfi-answers',
  key: 'e/s',
  event: { ...head, tags: [] },
  supplier: { id: 's', name: 'Ärmel' },
  lines: [
    {
      question: { id: 'q', identifier: '1.2', categories: ['Legal', 'Tax'] },
      value: 'yes',
      comment: 'so',
      options: [{ value: 'red', satisfies_gating: true }],
      files: [],
    },
  ],
};
const supplier: SupplierDocument = {
  kind: 'supplier',
  key: 'V-1',
  external_id: 'V-1',
  name: 'Ärmel',
  archived: false,
  attributes: [{ name: 'City', value: 'Łódź' }],
  contacts: [{ name: 'A', email: 'a@example.org' }],
};

type Given = z.input<typeof mappingSettings>;
type Fields = NonNullable<NonNullable<Given['award']>['fields']>;

function apply(document: Document, mapping: Given): Document {
  return compileMapping('erp', mappingSettings.parse(mapping))(document);
}

const fieldsOf = (document: Document, fields: Fields) => apply(document, { [document.kind]: { fields } }).fields;

function linesOf(document: AwardDocument | RfiAnswersDocument, lines: Fields) {
  const made = apply(document, { [document.kind]: { lines } });
  return 'lines' in made ? made.lines.map(({ fields }) => fields) : [];
}

const refused = 'refused';

describe('a path', () => {
  test.each([
    ['event.reference_id', award, 'R-1'],
    ['event.is_test', award, 'false'],
    ['event.tags[Cost Center]', award, '4711'],
    ['event.tags[ Cost Center ]', award, '4711'],
    ['event.tags["a[b]"]', award, 'bracket'],
    ['event.tags["a\\"\\\\b"]', award, 'quote'],
    ['event.tags[Plant]', award, undefined],
    ['event.category', award, undefined],
    ['exchange_rates[USD]', award, '0.9'],
    ['lines[1].values[Incoterm]', award, 'DAP'],
    ['lines[1].values[Annual Volume].currency', award, 'EUR'],
    ['lines[3].lot', award, undefined],
    ['answers[1.2]', answers, 'yes'],
    ['answers[1.2].comment', answers, 'so'],
    ['answers[1.2].options[1].value', answers, 'red'],
    ['answers[1.3]', answers, undefined],
    ['attributes[City]', supplier, 'Łódź'],
    ['contacts[1].email', supplier, 'a@example.org'],
    ['contacts[2].email', supplier, undefined],
  ])('%s', (path, document, value) => {
    expect(fieldsOf(document, { F: path })).toEqual(value === undefined ? {} : { F: value });
  });

  test('of a line field is read in each line, and can also lead into the document', () => {
    expect(linesOf(award, { Lot: 'line.lot', Delivery: 'line.values[Delivery]', Ref: 'event.reference_id' })).toEqual([
      { Lot: 'A', Delivery: '2030-01-31T23:30:00-05:00', Ref: 'R-1' },
      { Lot: 'B', Ref: 'R-1' },
    ]);
    expect(linesOf(answers, { Q: 'line.question.identifier', C: 'line.question.categories[2]' })).toEqual([
      { Q: '1.2', C: 'Tax' },
    ]);
  });

  test.each([
    [
      'award',
      'event.refernce_id',
      'leads to nothing: event has no member refernce_id; it has id, name, reference_id, type, category, is_test, tags',
    ],
    ['award', 'supplier', 'leads to several values; go on with one of id, external_id, name'],
    ['award', 'event.tags', 'event.tags is a list: say which with event.tags[<name>]'],
    ['award', 'lines', 'lines is a list: say which with lines[1]'],
    ['award', 'lines[A].lot', 'lines is read by place: lines[1] is the first entry'],
    ['award', 'lines[0].lot', 'lines is read by place: lines[1] is the first entry'],
    ['award', 'currency.code', 'currency is a single value: nothing can follow it'],
    ['award', 'event..name', 'must be written as event.name or event.tags[Cost Center]'],
    ['award', 'event.tags[Cost', 'must be written as event.name or event.tags[Cost Center]'],
    ['award', 'line.lot', 'line is known only under lines'],
    ['award', 'fields.Plant', 'the document has no member fields; it has kind, key, event'],
    ['award', 'answers[1.2]', 'the document has no member answers'],
    ['award', '__proto__', 'the document has no member __proto__'],
    ['award', 'constructor.name', 'the document has no member constructor'],
    ['rfi-answers', 'answers', 'answers are read by the identifier of their question: answers[1.2]'],
    ['supplier', 'supplier.external_id', 'the document has no member supplier'],
  ])('of %s that is wrong is refused when the settings are read: %s', (kind, path, message) => {
    const read = () => parseInput(mappingSettings, { [kind]: { fields: { Plant: path } } }, 'The mapping');
    expect(read).toThrow(`The mapping is not valid: ${kind}.fields.Plant `);
    expect(read).toThrow(message);
  });
});

describe('a field', () => {
  test('has the first of several paths that is not empty, a template of all its parts, or a fixed value', () => {
    expect(
      fieldsOf(award, {
        First: { from: ['supplier.external_id', 'supplier.id'] },
        Both: { template: '{event.reference_id}/{supplier.name} {{x}}' },
        Part: { template: '{event.reference_id}-{event.category}' },
        Fixed: { value: 'NB' },
      }),
    ).toEqual({ First: 's', Both: 'R-1/Ärmel {x}', Fixed: 'NB' });
  });

  test('has its default when there is no value, also when a cell is blank', () => {
    const rule = { from: 'lines[1].values[Empty]', default: '1000' };
    expect(fieldsOf(award, { Plant: rule, Other: { default: 'only this' } })).toEqual({
      Plant: '1000',
      Other: 'only this',
    });
  });

  test('treats blank values as empty in its paths and its template', () => {
    const blank = { ...award, event: { ...award.event, reference_id: ' ' } };
    expect(
      fieldsOf(blank, {
        First: { from: ['event.reference_id', 'supplier.name'] },
        Part: { template: '{event.reference_id}-{event.name}', default: 'without' },
      }),
    ).toEqual({ First: 'Ärmel', Part: 'without' });
  });

  test('converts and cuts its default as any other value', () => {
    expect(
      fieldsOf(award, {
        Number: { from: 'event.category', type: 'decimal', default: '01.50' },
        Text: { from: 'event.category', cut: 2, default: 'long' },
      }),
    ).toEqual({ Number: '1.5', Text: 'lo' });
  });

  test('is translated into the values of the ERP by its map', () => {
    const map = { DAP: '10', '*': '99' };
    expect(fieldsOf(award, { T: { from: 'lines[1].values[Incoterm]', map } })).toEqual({ T: '10' });
    expect(fieldsOf(award, { T: { from: 'event.type', map } })).toEqual({ T: '99' });
    expect(linesOf(award, { V: { from: 'line.values[Annual Volume]', map: { '1200.50': 'v', '*': '' } } })).toEqual([
      { V: 'v' },
      { V: '' },
    ]);
    const constructed = { ...award, event: { ...award.event, name: 'constructor' } };
    expect(() => fieldsOf(constructed, { T: { from: 'event.name', map: { A: 'x' } } })).toThrow('is "constructor"');
    expect(() => fieldsOf(award, { T: { from: 'event.type', map: { toString: 'x' } } })).toThrow(
      'flow "erp", award: the field "T" is "RFQ", which its map does not have; add it, or "*" for any other value',
    );
  });

  test.each([
    ['decimal', '  001200.50 ', '1200.5'],
    ['decimal', '-0.10', '-0.1'],
    ['decimal', '-0.00', '0'],
    ['decimal', '+5', undefined],
    ['decimal', '.5', undefined],
    ['decimal', 'Infinity', undefined],
    ['integer', '-0', '0'],
    ['integer', '9007199254740993', '9007199254740993'],
    ['decimal', '1,5', undefined],
    ['decimal', '1 000', undefined],
    ['decimal', '1e3', undefined],
    ['decimal', '12345678901234567890123.4567890123456789012345', '12345678901234567890123.4567890123456789012345'],
    ['integer', '12.00', '12'],
    ['integer', '12.5', undefined],
    // The day as it is written, whatever day that is in UTC.
    ['date', '2030-01-31T23:30:00-05:00', '2030-01-31'],
    ['date', '2030-12-31T00:00:00+01:00', '2030-12-31'],
    ['date', '2030-02-30', undefined],
    ['date', '31.01.2030', undefined],
    ['time', '2030-01-31', '2030-01-31T00:00:00.000000Z'],
    ['boolean', 'Yes', 'true'],
    ['boolean', 'false', 'false'],
    ['boolean', 'maybe', undefined],
    ['text', ' as it is ', ' as it is '],
  ] as const)('of type %s reads "%s" as %s', (type, text, value) => {
    const document = { ...award, event: { ...award.event, name: text } };
    let made: unknown;
    try {
      made = fieldsOf(document, { F: { from: 'event.name', type } });
    } catch (error) {
      made = /^flow "erp", award: the field "F" is ".*"; it must be /.test(errorText(error)) ? refused : error;
    }
    expect(made).toEqual(value === undefined ? refused : { F: value });
  });

  test.each([
    ['2030-12-31T00:00:00+01:00', 'Europe/Berlin', '2030-12-31'],
    ['2030-12-30T23:00:00Z', 'Europe/Berlin', '2030-12-31'],
    ['2030-12-31T00:00:00+01:00', 'America/New_York', '2030-12-30'],
    // A day is a day everywhere.
    ['2030-12-31', 'America/New_York', '2030-12-31'],
  ])('of type date reads "%s" in the time zone %s of its flow as %s', (name, zone, day) => {
    const mapping = mappingSettings.parse({ award: { fields: { Due: { from: 'event.name', type: 'date' } } } });
    const document = { ...award, event: { ...award.event, name } };
    expect(compileMapping('erp', mapping, zone)(document)).toMatchObject({ fields: { Due: day } });
  });

  test('names columns and values in either form of Unicode', () => {
    const values = [{ column: 'Gro\u0308\u00dfe', value: 'gru\u0308n' }];
    const document = { ...award, lines: [{ lot: 'A', share: '1', cost: '1', values }] };
    const map = { 'gr\u00fcn': 'green', '*': 'other' };
    expect(linesOf(document, { C: { from: 'line.values[Gr\u00f6\u00dfe]', map } })).toEqual([{ C: 'green' }]);
  });

  test('that is wrong in a line has an error that names the lot and what to do', () => {
    expect(() => linesOf(award, { Qty: { from: 'line.values[Annual Volume]', type: 'decimal' } })).toThrow(
      'flow "erp", award: the field "Qty" of lot "B" is "1,5"; it must be a number with a decimal point and without ' +
        'separators, as 1234.50',
    );
    expect(() => linesOf(award, { Del: { from: 'line.values[Delivery]', required: true } })).toThrow(
      'flow "erp", award: the field "Del" of lot "B" has no value, as line.values[Delivery] is empty; fill it in ' +
        'the sourcing service, or give the field a default',
    );
    expect(() => linesOf(answers, { N: { from: 'line.value', type: 'integer' } })).toThrow('of question 1.2 is "yes"');
  });

  test('with more than 1,000 digits has an error that says so', () => {
    const document = { ...award, event: { ...award.event, name: '9'.repeat(1_001) } };
    expect(() => fieldsOf(document, { F: { from: 'event.name', type: 'decimal' } })).toThrow(
      `flow "erp", award: the field "F" is "${'9'.repeat(60)}…"; the number has more than 1000 digits`,
    );
  });

  test('is cut to the length that the ERP takes, between characters', () => {
    const document = { ...award, event: { ...award.event, name: 'a😀b😀c' } };
    expect(fieldsOf(document, { F: { from: 'event.name', cut: 3 } })).toEqual({ F: 'a😀b' });
    expect(fieldsOf(document, { F: { from: 'event.name', cut: 30 } })).toEqual({ F: 'a😀b😀c' });
  });

  test('with contradictory settings is refused', () => {
    const issuesOf = (rule: unknown) => mappingSettings.safeParse({ award: { fields: { F: rule } } }).error?.issues;
    expect(issuesOf({ from: 'key', value: 'x' })).toMatchObject([
      { message: 'must have one of from, template and value' },
    ]);
    expect(issuesOf({ required: true })).toMatchObject([{ message: 'must have one of from, template and value' }]);
    expect(issuesOf({ from: 'key', type: 'decimal', default: '1,5' })).toMatchObject([
      { path: ['award', 'fields', 'F', 'default'], message: expect.stringContaining('1234.50') },
    ]);
    expect(issuesOf({ template: '{key' })).toMatchObject([{ path: ['award', 'fields', 'F', 'template'] }]);
    expect(issuesOf({ template: 'a } b' })).toMatchObject([{ path: ['award', 'fields', 'F', 'template'] }]);
    expect(issuesOf({ from: ['key', 'nothing'] })).toMatchObject([{ path: ['award', 'fields', 'F', 'from'] }]);
    expect(issuesOf({ value: '1,5', type: 'decimal' })).toMatchObject([
      { path: ['award', 'fields', 'F', 'value'], message: expect.stringContaining('1234.50') },
    ]);
    expect(issuesOf({ from: 'key', type: 'integer', map: { A: '1', B: 'two' } })).toMatchObject([
      { path: ['award', 'fields', 'F', 'map', 'B'], message: expect.stringContaining('a whole number') },
    ]);
    expect(issuesOf({ value: 'NB', type: 'integer', map: { NB: '7' } })).toBeUndefined();
    for (const type of ['decimal', 'integer'])
      expect(issuesOf({ from: 'total_cost', type, cut: 2 })).toMatchObject([
        {
          path: ['award', 'fields', 'F', 'cut'],
          message: 'is not possible: a number that is cut is another number',
        },
      ]);
    expect(issuesOf({ from: 'event.name', type: 'date', cut: 7 })).toBeUndefined();
    expect(mappingSettings.safeParse({ supplier: { lines: { F: 'line.lot' } } }).success).toBe(false);
  });

  test('with a fixed value may be blank', () => {
    expect(fieldsOf(award, { Blank: { value: ' ' }, Other: { value: ' ', default: 'x' } })).toEqual({
      Blank: ' ',
      Other: ' ',
    });
  });

  test('that is moved within the configuration changes no document', () => {
    const first = apply(award, {
      award: { fields: { A: 'key', B: 'event.name' }, lines: { C: 'key', D: 'line.lot' } },
    });
    const reordered = apply(award, {
      award: { lines: { D: 'line.lot', C: 'key' }, fields: { B: 'event.name', A: 'key' } },
    });
    expect(JSON.stringify(reordered)).toBe(JSON.stringify(first));
  });

  test('may have any name', () => {
    expect(fieldsOf(award, { toString: 'event.name', 'E-Mail / 2': 'key' })).toEqual({
      toString: 'Chairs',
      'E-Mail / 2': 'e/s',
    });
  });
});

/** Returns any documents that fit this schema. */
function anyOf(schema: z.ZodType): fc.Arbitrary<unknown> {
  if (schema instanceof z.ZodOptional) return fc.option(anyOf(schema.unwrap() as z.ZodType), { nil: undefined });
  if (schema instanceof z.ZodArray) return fc.array(anyOf(schema.element as z.ZodType), { maxLength: 3 });
  if (schema instanceof z.ZodLiteral) return fc.constant(schema.value);
  if (schema instanceof z.ZodBoolean) return fc.boolean();
  if (schema instanceof z.ZodRecord) return fc.constant({});
  if (schema instanceof z.ZodObject)
    return fc.record(
      Object.fromEntries(Object.entries(schema.shape).map(([name, one]) => [name, anyOf(one as z.ZodType)])),
    );
  return schema instanceof z.ZodString ? fc.string({ unit: 'grapheme', maxLength: 5 }) : fc.nat();
}

const paths: Record<DocumentKind, string[]> = {
  supplier: ['name', 'archived', 'attributes[a]', 'contacts[1].email'],
  'sourcing-event': ['status', 'rounds[1].ends', 'lot_count', 'suppliers[2].accepted', 'columns[1]', 'contact.email'],
  quotation: ['currency', 'lines[1].bids[1].volume', 'event.tags[a]', 'exchange_rates[a]'],
  award: ['total_cost', 'lines[2].values[a].currency', 'supplier.external_id'],
  'event-awards': ['total_cost', 'lines[1].supplier.external_id', 'suppliers[1].total_cost', 'bid_sheet_csv'],
  'rfi-answers': ['answers[a]', 'answers[a].files[1]', 'lines[1].options[1].satisfies_gating'],
  job: ['status', 'reference_id', 'created_entity', 'errors[2].message'],
  file: ['question.parent', 'supplier.name', 'question.categories[1]'],
};

function outcomeOf(kind: DocumentKind, make: () => Document): string {
  try {
    return documentSchemas[kind].safeParse(make()).success ? 'a document' : 'no document';
  } catch (error) {
    return errorText(error);
  }
}

test('a mapping makes a document of its kind, or says why not, whatever the document contains', () => {
  for (const kind of Object.keys(documentSchemas) as DocumentKind[]) {
    const types = fc.constantFrom('text', 'decimal', 'integer', 'date', 'time', 'boolean');
    fc.assert(
      fc.property(anyOf(documentSchemas[kind]), types, fc.boolean(), (document, type, required) => {
        const rules = Object.fromEntries((paths[kind] ?? []).map((from) => [from, { from, type, required }]));
        const mapping = mappingSettings.parse({ [kind]: { fields: rules } });
        expect(outcomeOf(kind, () => compileMapping('erp', mapping)(document as Document))).toMatch(
          /^(a document|flow "erp", [a-z-]+: the field ".*" (has no value|is ").*)$/s,
        );
      }),
      { numRuns: 200 },
    );
  }
});
