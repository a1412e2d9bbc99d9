import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { awardsOfFolder, compareAwards } from '#cli/award-comparison.ts';

async function folderWith(files: Record<string, unknown>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sourcing-awards-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files))
    await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  return folder;
}

const line = (lot: string, share = '1') => ({ lot, share, cost: '12.5' });

describe('the comparison of the demo', () => {
  test('finds no difference between equal awards, in any order', () => {
    const here = new Map([
      ['e/s', new Set(['a', 'b'])],
      ['e/t', new Set(['c'])],
    ]);
    const there = new Map([
      ['e/t', new Set(['c'])],
      ['e/s', new Set(['b', 'a'])],
    ]);
    expect(compareAwards(here, there)).toEqual({ missing: [], extra: [] });
  });

  test('names each line that only one side has', () => {
    const wanted = new Map([
      ['e/s', new Set(['a', 'b'])],
      ['e/t', new Set(['c'])],
    ]);
    const held = new Map([
      ['e/s', new Set(['a', 'x'])],
      ['e/u', new Set(['y'])],
    ]);
    expect(compareAwards(wanted, held)).toEqual({ missing: ['e/s: b', 'e/t: c'], extra: ['e/s: x', 'e/u: y'] });
  });

  test('counts a line that is delivered twice as a difference', async () => {
    const folder = await folderWith({ 'award_1.json': { key: 'e/s', lines: [line('A'), line('A')] } });
    const difference = compareAwards(new Map([['e/s', new Set(['A 1 12.5'])]]), await awardsOfFolder(folder));
    expect(difference).toEqual({ missing: [], extra: ['e/s: A 1 12.5 (twice)'] });
  });

  test('counts a withdrawn award as none, and reads only documents', async () => {
    const folder = await folderWith({
      'award_1.json': { key: 'e/s', lines: [] },
      'award_2.json': { key: 'e/t', lines: [line('A', '0.5')] },
      'award_2.csv': 'lot\r\nA\r\n',
    });
    expect(await awardsOfFolder(folder)).toEqual(new Map([['e/t', new Set(['A 0.5 12.5'])]]));
  });

  test('leaves out the given events', async () => {
    const folder = await folderWith({
      'award_1.json': { key: 'e/s', lines: [line('A')] },
      'award_2.json': { key: 'e2/s', lines: [line('B')] },
    });
    expect(await awardsOfFolder(folder, new Set(['e']))).toEqual(new Map([['e2/s', new Set(['B 1 12.5'])]]));
  });

  test('rejects a document that is cut off', async () => {
    const folder = await folderWith({ 'award_1.json': '{"key":"e/s","lines":[' });
    await expect(awardsOfFolder(folder)).rejects.toThrow('JSON');
  });
});
