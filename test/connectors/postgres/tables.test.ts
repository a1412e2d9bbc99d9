import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Document, type DocumentKind, documentJsonSchema, documentKinds } from '#connector/documents.ts';
import { tablesOf } from '../../../connectors/postgres/tables.ts';
import { createEmptyDatabase } from '../../harness/test-database.ts';
import { anyDocument } from './any-document.ts';
import { readDocuments } from './read-documents.ts';
import { award, messageOf, never, openSession, operationOf, statuses } from './sessions.ts';

const db = await createEmptyDatabase();
const session = await openSession(db.url);
await session.write([operationOf(award(0))], never);

/** The value with normalised decimals, and without a contact that has no members. */
function normalised(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map((entry) => normalised(entry, name));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value)
        .filter(([member, inner]) => !(member === 'contact' && Object.keys(inner).length === 0))
        .map(([member, inner]) => [member, name === 'fields' ? inner : normalised(inner, member)]),
    );
  return typeof value === 'string' && decimals.has(name) && /^-?\d+(\.\d+)?$/.test(value) ? byValue(value) : value;
}

const decimals = new Set(
  'share quantity unit_price cost historic_cost savings total_cost value volume awarded_cost exchange_rate'.split(' '),
);

function byValue(decimal: string): string {
  const [, sign = '', whole = '', fraction = ''] = /^(-?)0*(\d*)(?:\.(\d*?)0*)?$/.exec(decimal) ?? [];
  const digits = `${whole || '0'}${fraction === '' ? '' : `.${fraction}`}`;
  return digits === '0' ? '0' : `${sign}${digits}`;
}

describe.each(documentKinds)('a %s document', (kind) => {
  test('that its schema allows is in the tables unchanged, also after another version', async () => {
    const documents = fc.uniqueArray(anyDocument(kind), { selector: ({ key }) => key, minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(documents, async (batch) => {
        const file = { name: 'a.pdf', read: async () => new Uint8Array([0, 1]) };
        const outcomes = await session.write(
          batch.map((document) => operationOf(document, { file })),
          never,
        );
        expect(outcomes.map(messageOf).filter(Boolean)).toEqual([]);
        const held = await readDocuments(db.database, 'sourcing', kind);
        for (const document of batch) expect(normalised(held.get(document.key))).toEqual(normalised(document));
      }),
      { numRuns: 12 },
    );
  });

  test('has a column for each member, with the member’s description as comment', async () => {
    const comments = new Map(
      (
        await db.database.query<{ place: string; comment: string }>(
          `select c.relname || '.' || a.attname as place, col_description(c.oid, a.attnum) as comment
           from pg_class c join pg_attribute a on a.attrelid = c.oid
           where c.relnamespace = 'sourcing'::regnamespace and c.relkind = 'r' and a.attnum > 0`,
        )
      ).map(({ place, comment }) => [place, comment]),
    );
    const missing: string[] = [];
    for (const [place, description] of placesOf(kind))
      if (!comments.has(place) || (description !== undefined && comments.get(place) !== description))
        missing.push(place);
    expect(missing).toEqual([]);
    for (const table of tablesOf(kind))
      for (const column of Object.keys(table.columns)) expect(comments.has(`${table.name}.${column}`)).toBe(true);
  });
});

interface Schema {
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
}

/** The column of each member of the kind's documents, by the rules of the README, with the schema's description. */
function placesOf(kind: DocumentKind): Map<string, string | undefined> {
  const lists: Record<string, string> = {
    attributes: 'supplier_attribute',
    contacts: 'supplier_contact',
    rounds: 'sourcing_event_round',
    suppliers: `${kind.replaceAll('-', '_')}_supplier`,
    bids: 'quotation_bid',
    values: `${kind.replaceAll('-', '_')}_value`,
    options: 'rfi_answer_option',
    files: 'rfi_answer_file',
    errors: 'job_error',
    lines: kind === 'rfi-answers' ? 'rfi_answer' : `${kind.replaceAll('-', '_')}_line`,
  };
  const places = new Map<string, string | undefined>();
  const walk = (table: string, prefix: string, { properties = {} }: Schema) => {
    for (const [name, member] of Object.entries(properties)) {
      const list = lists[name];
      const tags = name === 'tags' && kind === 'sourcing-event' ? 'sourcing_event_tag' : undefined;
      if (name === 'kind') continue;
      if (list !== undefined && member.items?.properties)
        walk(list, name === 'suppliers' ? 'supplier_' : '', member.items);
      else if (list !== undefined) places.set(`${list}.${name === 'files' ? 'file_id' : name}`, undefined);
      else if (tags !== undefined) walk(tags, '', member.items ?? {});
      else if (member.properties) walk(table, `${name}_`, member);
      else if (name === 'column') places.set(`${table}.column_name`, member.description);
      else if (['accepted', 'participated', 'total_cost'].includes(name))
        places.set(`${table}.${name}`, member.description);
      else places.set(`${table}.${prefix}${name}`, member.description);
    }
  };
  walk(kind.replaceAll('-', '_'), '', documentJsonSchema(kind));
  return places;
}

describe('what PostgreSQL cannot hold', () => {
  test.each([
    ['the zero character', award(1, ['1'], { currency: 'E\0R' }), 'U+0000'],
    [
      'the zero character in a list of tags',
      award(2, ['1'], { event: { ...award(2).event, tags: [{ name: 'a\0', value: '' }] } }),
      '\\u0000',
    ],
    ['half of a character', award(3, ['1'], { currency: '\ud800' }), 'lone surrogate'],
    ['a key that is too long for an index', award(4, ['1'], { key: 'k'.repeat(601) }), '601 characters'],
    ['a number beyond all bounds', award(5, [`1${'0'.repeat(140_000)}`]), 'overflow'],
  ])('%s is refused alone, with the reason', async (_name, document, reason) => {
    const outcomes = await session.write(
      [award(90), document, award(91)].map((given: Document) => operationOf(given)),
      never,
    );
    expect(statuses(outcomes)).toEqual([
      expect.stringMatching(/created|unchanged/),
      'data',
      expect.stringMatching(/created|unchanged/),
    ]);
    expect(messageOf(outcomes[1])).toContain(reason);
  });
});
