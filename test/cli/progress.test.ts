/** How a long command shows its progress, on a terminal and elsewhere. */
import { expect, test } from 'vitest';
import { readingText } from '#cli/feed-words.ts';
import { createProgress } from '#cli/output.ts';
import { feedInStep } from '../bridge/operate/status/statuses.ts';

function progressOn({ isTTY }: { isTTY: boolean }) {
  const written: string[] = [];
  let ms = 0;
  const progress = createProgress('documents', {
    stream: { isTTY, write: (text) => written.push(text) },
    nowMs: () => ms,
  });
  return { written, progress, pass: (moreMs: number) => (ms += moreMs) };
}

test('elsewhere than on a terminal it is a line at the beginning, every minute and at the end', () => {
  const { written, progress, pass } = progressOn({ isTTY: false });
  for (let done = 0; done <= 130; done += 1) {
    progress.tell(done, 130);
    pass(1_000);
  }
  progress.end();
  expect(written).toEqual([
    'documents 0/130\n',
    'documents 60/130, about 70 s left\n',
    'documents 120/130, about 10 s left\n',
    'documents 130/130\n',
  ]);
});

test('on a terminal it is one line that is rewritten', () => {
  const { written, progress, pass } = progressOn({ isTTY: true });
  progress.tell(0, 4);
  pass(10_000);
  progress.tell(1, 4);
  progress.end();
  expect(written).toEqual(['\rdocuments 0/4\u001b[K', '\rdocuments 1/4, about 30 s left\u001b[K', '\n']);
});

test('without a total it is a figure alone', () => {
  const { written, progress, pass } = progressOn({ isTTY: false });
  progress.tell(0);
  pass(90_000);
  progress.tell(500, undefined, 'records');
  progress.end();
  expect(written).toEqual(['documents 0\n', 'documents 500 records\n']);
});

test('a first read is named with how far it is; feeds that were read, or that fail, are not', () => {
  const why = 'it is being read for the first time: 37 %, about 4 min left';
  const first = {
    ...feedInStep,
    feed: 'latest-bids',
    lastPull: null,
    lag: { seconds: null, inStep: false, why },
  } as const;
  expect(readingText([feedInStep, { ...first, failures: 1 }, first])).toBe(`main/latest-bids: ${why}`);
  expect(readingText([feedInStep])).toBe('');
});
