import { describe, expect, test } from 'vitest';
import { createProgress, oneLine, tableOf } from '#cli/output.ts';
import { durationOf } from '#console/duration.ts';

describe('a table', () => {
  test('has its columns aligned, numbers to the right, and no blanks at the end of a line', () => {
    expect(
      tableOf(
        ['flow', 'due', 'state'],
        [
          ['erp', 7, 'in step'],
          ['warehouse', 1234, null],
        ],
      ),
    ).toBe(['flow        due  state', 'erp           7  in step', 'warehouse  1234  -'].join('\n'));
  });

  test('without rows is the text for that case', () => {
    expect(tableOf(['flow'], [], 'No flows.')).toBe('No flows.');
  });

  test('keeps foreign text in its line, and from controlling the terminal', () => {
    const [, line] = tableOf(['message'], [['no\u001b[2J such\r\nvendor\u0007 \u202eabc']]).split('\n');
    expect(line).toBe('no [2J such vendor abc');
    expect(oneLine(' a\tb ')).toBe('a b');
  });
});

describe('progress', () => {
  function stream(isTTY: boolean) {
    const written: string[] = [];
    return { isTTY, written, write: (text: string) => void written.push(text) };
  }

  test('is plain lines without a terminal: the first, one every ten seconds, the last', () => {
    const out = stream(false);
    let nowMs = 0;
    const progress = createProgress('feeds', { stream: out, nowMs: () => nowMs });
    for (let done = 0; done <= 25; done += 1) {
      nowMs = done * 1000;
      progress.tell(done, 25);
    }
    progress.end();
    expect(out.written).toEqual(['feeds 0/25\n', 'feeds 10/25\n', 'feeds 20/25\n', 'feeds 25/25\n']);
  });

  test('is one line with a bar on a terminal, redrawn in place, and ended', () => {
    const out = stream(true);
    let nowMs = 0;
    const progress = createProgress('feeds', { stream: out, nowMs: () => nowMs });
    progress.tell(1, 2);
    nowMs = 1000;
    progress.tell(2, 2, 'ready');
    progress.end();
    expect(out.written).toEqual([
      `\rfeeds [${'#'.repeat(12)}${'.'.repeat(12)}] 1/2\u001b[K`,
      `\rfeeds [${'#'.repeat(24)}] 2/2 ready\u001b[K`,
      '\n',
    ]);
  });

  test('that was never updated shows nothing', () => {
    const out = stream(true);
    createProgress('feeds', { stream: out }).end();
    expect(out.written).toEqual([]);
  });
});

test.each([
  [0, '0 s'],
  [119.4, '119 s'],
  [120, '2 min'],
  [7199, '119 min'],
  [7200, '2 h'],
  [7500, '2 h 5 min'],
  [172_800, '2 d'],
  [180_000, '2 d 2 h'],
])('%d seconds are shown as %s', (seconds, text) => {
  expect(durationOf(seconds)).toBe(text);
});
