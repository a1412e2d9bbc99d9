import { expect, test } from 'vitest';
import { storableText } from '#platform/database/storable-text.ts';
import { createTestDatabase } from '../harness/test-database.ts';

test('a foreign text can be stored whatever it contains, and is shortened', async () => {
  const { database } = await createTestDatabase();
  // A text may be shortened in the middle of a character; what is left of it shows as the replacement character.
  for (const [text, kept] of [
    ['PO 4711 is blocked: żółty 😀', 'PO 4711 is blocked: żółty 😀'],
    ['a\0b\0', 'ab'],
    ['a\ud800b', 'a\ufffdb'],
    [`${'x'.repeat(1_999)}😀 and more`, `${'x'.repeat(1_999)}\ufffd`],
    [`\0${'x'.repeat(3_000)}`, 'x'.repeat(2_000)],
  ] as const) {
    const [row] = await database.query<{ text: string }>('select $1::text as text', [storableText(text)]);
    expect(row?.text).toBe(kept);
  }
});
