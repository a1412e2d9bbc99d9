import { expect, test } from 'vitest';
import { createPageBytes } from '#service/feeds/page-bytes.ts';

test('what was written is what is sent, however long the texts are, also in pieces that were used before', () => {
  const texts = ['', '[', 'ä€😀'.repeat(1_000), ',', 'x'.repeat(200_000), '€'.repeat(70_000), ''];
  for (let length = 21_000; length < 22_000; length += 97) texts.push('Ж'.repeat(length));
  for (let round = 0; round < 3; round += 1) {
    const bytes = createPageBytes();
    for (const text of texts) bytes.write(`${round}${text}`);
    const sent = Buffer.concat(bytes.pieces());
    expect(sent.equals(Buffer.from(texts.map((text) => `${round}${text}`).join('')))).toBe(true);
    bytes.release();
  }
});

test('pieces are not used again before they are released, and then by one page at a time', () => {
  const written = (text: string) => {
    const bytes = createPageBytes();
    bytes.write(text);
    return bytes;
  };
  const [first, second] = [written('first'), written('second')];
  expect(first.pieces().join('')).toBe('first');
  first.release();
  const [third, fourth] = [written('third'), written('fourth')];
  expect([second, third, fourth].map((bytes) => bytes.pieces().join(''))).toEqual(['second', 'third', 'fourth']);
});

test('nothing written is nothing sent', () => {
  expect(createPageBytes().pieces()).toEqual([]);
});
