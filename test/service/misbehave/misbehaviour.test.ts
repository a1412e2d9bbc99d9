import { describe, expect, test } from 'vitest';
import { plainFeed, plainWebhooks } from '#service/misbehave/feed-quirks.ts';
import { drawMisbehaviour, readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { quirkTable } from '#service/misbehave/quirk-table.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';

describe('a list of quirks', () => {
  test('sets what each of them says, with its number or the usual one', () => {
    const { names, feed, webhooks } = readMisbehaviour(' late-commits=5, page-numbers,webhooks-lost ');
    expect(names).toEqual(['late-commits=5', 'page-numbers', 'webhooks-lost=0.3']);
    expect(feed).toEqual({ ...plainFeed, lateMs: 5_000, paging: 'page-number' });
    expect(webhooks).toEqual({ ...plainWebhooks, lost: 0.3 });
  });

  test.each([
    ['page-nmbers', '"page-nmbers" is no quirk'],
    ['page-numbers=2', 'takes no number'],
    ['late-commits=', 'from 0 to 3600'],
    ['late-commits=-1', 'from 0 to 3600'],
    ['cut=2', 'from 0 to 1'],
    ['page-size-capped=0', 'from 1 to'],
    ['cut=NaN', 'for example cut=0.1'],
    ['page-numbers,offsets', 'page-numbers and offsets do not go together'],
    ['new-fields=60,new-values=90', 'each sets changesAfterMs'],
    ['constructor', '"constructor" is no quirk'],
  ])('%s is refused: %s', (list, message) => {
    expect(() => readMisbehaviour(list)).toThrow(message);
  });
});

describe('the table', () => {
  test('names each quirk once, in words of the command line', () => {
    const names = quirkTable.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[a-z]+(-[a-z]+)*$/);
  });

  test.each(quirkTable.map((quirk) => [quirk.name, quirk] as const))(
    '%s: its usual number is allowed, and it says what it does and what is lost, in whole sentences',
    (_name, { parameter, feed, webhooks, does, loses }) => {
      expect(feed !== undefined).not.toBe(webhooks !== undefined);
      const { fallback, least, most } = parameter ?? { fallback: 0, least: 0, most: 0 };
      expect(fallback >= least && fallback <= most).toBe(true);
      for (const text of [does, loses]) expect(text).toMatch(/^[A-Z`].*\.$/);
    },
  );
});

describe('quirks drawn at random', () => {
  test('go together, are as many as allowed, and are the same for the same seed', () => {
    const drawn = Array.from({ length: 200 }, (_, seed) => drawMisbehaviour(seededFraction(`${seed}`), 4));
    for (const [seed, { names, feed, webhooks }] of drawn.entries()) {
      expect(names.length).toBeGreaterThanOrEqual(1);
      expect(names.length).toBeLessThanOrEqual(4);
      expect(readMisbehaviour(names.join(','))).toEqual({ names, feed, webhooks });
      expect(drawMisbehaviour(seededFraction(`${seed}`), 4).names).toEqual(names);
    }
    // Each quirk is drawn some time.
    expect(new Set(drawn.flatMap(({ names }) => names.map((name) => name.split('=')[0]))).size).toBe(quirkTable.length);
  });
});
