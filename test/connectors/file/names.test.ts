/** File names are safe on every file system, and two documents never share one. */
import { assert, constantFrom, pre, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { baseName, bytesPath, ownName, shownName } from '../../../connectors/file/names.ts';

const supplierOf = (key: string) =>
  ({ kind: 'supplier', key, id: 's1', name: 'x', archived: false, attributes: [], contacts: [] }) as Document;

const expectSafe = (name: string) => {
  expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
  expect(name).not.toMatch(/[/\\<>:"|?*\p{Cc}\p{Cf}]|^[.-]|[. ]$/u);
  expect(name).not.toMatch(/^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i);
  expect(name).not.toBe('');
};

test('the bytes of a file stay in their folder, whatever the file is called', () => {
  expect(['../../etc/passwd', '..', '-rf /', 'a/../b'].map((name) => bytesPath(name, '-1'))).toEqual([
    'files/passwd-1',
    'files/file-1',
    'files/file-1',
    'files/b-1',
  ]);
});

test('two documents never share a name', () => {
  const text = string({ unit: constantFrom('a', '1', '-', '_', '/', '%', 'ü', '😀'), minLength: 1, maxLength: 200 });
  expect.hasAssertions();
  assert(
    property(text, text, (keyA, keyB) => {
      pre(keyA !== keyB && keyA.replaceAll('/', '_') !== keyB.replaceAll('/', '_'));
      expect(baseName(supplierOf(keyA))).not.toBe(baseName(supplierOf(keyB)));
    }),
  );
});

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
    // Shown as "quotexcod.pdf" where the turned direction is obeyed.
    ['quote\u202Efdp.docx', 'quote_fdp.docx'],
    ['a\u2066b\u200Fc\u0007.pdf', 'a_b_c_.pdf'],
    [`${'ü'.repeat(300)}.pdf`, `${'ü'.repeat(60)}.pdf`],
  ])('%j is written as %j', (given, expected) => {
    expect(ownName(given)).toBe(expected);
  });

  test('is made safe, whatever it is', () => {
    expect.hasAssertions();
    assert(property(string({ unit: 'binary' }), (name) => expectSafe(ownName(name))));
  });

  test('keeps its ending when a suffix is added', () => {
    expect(['a.b.pdf', 'a'].map((name) => bytesPath(name, '-1'))).toEqual(['files/a.b-1.pdf', 'files/a-1']);
  });
});

test('a name that others gave is shown without characters that a screen obeys', () => {
  expect(shownName('a\u202Eb\u001B[31m\nc.csv')).toBe('a\\u{202e}b\\u{1b}[31m\\u{a}c.csv');
});
