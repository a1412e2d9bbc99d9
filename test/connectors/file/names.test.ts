/** File names are safe on every file system, and two documents never share one. */
import { assert, constantFrom, pre, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { baseName, beforeEnding, fillTemplate, ownName, placeholderValue } from '../../../connectors/file/names.ts';

const now = new Date('2030-01-31T23:59:58.999Z');
const supplierOf = (key: string, name = 'x') =>
  ({ kind: 'supplier', key, name, archived: false, attributes: [], contacts: [] }) as Document;
const fill = (template: string, document: Document) =>
  fillTemplate(template, (placeholder) => placeholderValue(placeholder, document, now));

const expectSafe = (name: string) => {
  expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
  expect(name).not.toMatch(/[/\\<>:"|?*\p{Cc}]|^[.-]|[. ]$/u);
  expect(name).not.toMatch(/^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i);
  expect(name).not.toBe('');
};

test('a name has the values of the document, without unsafe characters', () => {
  const award = {
    kind: 'award',
    key: 'e1/s1',
    event: { id: 'e1', name: 'Krzesła: 2030/31', reference_id: 'R 1/2', type: 'RFQ', is_test: false, tags: [] },
    supplier: { id: 's1', name: '株式会社' },
  } as unknown as Document;
  expect(fill('{kind}-{event.reference_id}-{key}-{date}', award)).toBe('award-R_1_2-e1_s1-20300131');
  expect(fill('{event.name}_{supplier.name}_{supplier.external_id}_{time}', award)).toBe(
    'Krzesła_2030_31_株式会社__20300131T235958Z',
  );
});

test('a name and a folder never begin with a hyphen, whatever the supplier is called', () => {
  expect(fill('{supplier.name}', supplierOf('1', '-rf /'))).toBe('_-rf_');
});

test.each(['{key}', '{supplier.name}_{key}', '{key}{supplier.name}', '{supplier.name}-{key}-{date}'])(
  'two suppliers never share a name (%s), also where case does not count',
  (template) => {
    const text = string({
      unit: constantFrom('a', 'A', '1', '-', '_', '/', '%', 'ü', '😀'),
      minLength: 1,
      maxLength: 200,
    });
    assert(
      property(text, text, text, text, (keyA, nameA, keyB, nameB) => {
        pre(keyA !== keyB);
        const [a, b] = [fill(template, supplierOf(keyA, nameA)), fill(template, supplierOf(keyB, nameB))];
        expectSafe(a);
        expect(a.toLowerCase()).not.toBe(b.toLowerCase());
      }),
    );
  },
);

test('any key makes a safe name', () => {
  expect.hasAssertions();
  assert(
    property(string({ unit: 'binary', minLength: 1 }), (key) => {
      expectSafe(baseName(supplierOf(key)));
    }),
  );
});

describe("a file's own name", () => {
  test.each([
    ['Angebot 2030 (final).pdf', 'Angebot 2030 (final).pdf'],
    ['../../etc/passwd', 'passwd'],
    ['C:\\Temp\\a.doc', 'a.doc'],
    ['CON.txt', '_CON.txt'],
    ['--checkpoint-action=exec=sh x.sh', '_--checkpoint-action_exec_sh x.sh'],
    ['-rf', '_-rf'],
    ['...', 'file'],
    ['', 'file'],
    ['.bashrc', 'bashrc'],
    ['a<b>|c?.pdf', 'a_b_c_.pdf'],
    ['x\u0000y\n.csv', 'x_y_.csv'],
    [`${'ü'.repeat(300)}.pdf`, `${'ü'.repeat(60)}.pdf`],
  ])('%j is written as %j', (given, expected) => {
    expect(ownName(given)).toBe(expected);
  });

  test('is made safe, whatever it is', () => {
    expect.hasAssertions();
    assert(property(string({ unit: 'binary' }), (name) => expectSafe(ownName(name))));
  });

  test('keeps its ending when a suffix is added', () => {
    expect([beforeEnding('a.b.pdf', '-1'), beforeEnding('a', '-1')]).toEqual(['a.b-1.pdf', 'a-1']);
  });
});
