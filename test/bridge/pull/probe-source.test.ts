import { describe, expect, test } from 'vitest';
import { probeSource } from '#bridge/pull/probe-source.ts';
import { microsFromTimestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError, type ErrorCode } from '#platform/errors.ts';
import { testClock } from '../parts.ts';
import { type HostileQuirks, HostileSource, seeded } from './hostile-source.ts';
import { ListSource } from './list-source.ts';
import { calm } from './reader.ts';

const never = new AbortController().signal;

/** Probes a source with these quirks, which was written to every ten seconds, at whole seconds; nothing is written meanwhile. */
async function probeOf(quirks: Partial<HostileQuirks>) {
  const clock = testClock();
  const source = new HostileSource({ ...calm, ...quirks }, clock, seeded(3));
  source.live(600, 60);
  source.writing = false;
  return probeSource({ client: source.client, source: { page_size: 8 }, feed: 'awards' }, never);
}

/** Probes a list of rows, a minute apart, that `prepare` changes. */
async function probeOfList(prepare: (source: ListSource) => void) {
  const source = new ListSource(testClock());
  for (let n = 0; n < 6; n += 1) source.put(`r${n}`, n, 3_600 - n * 60);
  prepare(source);
  const results = await probeSource({ client: source.client, source: { page_size: 8 }, feed: 'awards' }, never);
  const text = results.map(({ name, message }) => `${name}: ${message}`).join('\n');
  return { results, text, ok: results.every((result) => result.ok), asked: source.asked.length };
}

test.each<[string, Partial<HostileQuirks>]>([
  ['bounds that are inclusive', {}],
  ['bounds that are exclusive', { inclusiveAfter: false, inclusiveBefore: false }],
  ['rounded stamps', { stamps: 'rounded' }],
  ['bounds that are truncated to seconds', { boundsInSeconds: true }],
  ['a clock that is 20 s ahead', { dateSkewMs: 20_000 }],
])('a source with %s passes', async (_what, quirks) => {
  const results = await probeOf(quirks);
  expect(results.map(({ name, ok }) => ({ name, ok }))).toEqual([
    { name: 'awards: page size', ok: true },
    { name: 'awards: last page', ok: true },
    { name: 'awards: bounds', ok: true },
  ]);
});

test('empty pages that have a "next" do not look like a feed without records, or like bounds that are not kept', async () => {
  const { ok, text, asked } = await probeOfList((source) => {
    source.answer = (at) =>
      !('next' in at) && at.modifiedAfter === undefined && at.modifiedBefore === undefined
        ? undefined
        : { records: [], next: `empty=${source.asked.length}` };
  });
  expect(ok).toBe(true);
  expect(text).not.toContain('no record with a time');
  expect(asked).toBeLessThanOrEqual(30);
});

describe('unsafe settings are refused:', () => {
  test('bounds that are not kept', async () => {
    const { ok, text } = await probeOfList((source) => {
      source.answer = (at) =>
        'next' in at ? undefined : { records: [...source.rows].map(([id, row]) => ({ id, ...row })), next: undefined };
    });
    expect(ok).toBe(false);
    expect(text).toContain('ignores modified_after and modified_before');
  });

  test('bounds that are truncated to a day', async () => {
    const day = 86_400_000_000;
    const { ok, text } = await probeOfList((source) => {
      source.rows.clear();
      for (const hour of ['10', '12', '15'])
        source.rows.set(hour, { modified: `2029-12-31T${hour}:20:30.000000Z`, value: Number(hour) });
      const truncate = (time?: string) =>
        time === undefined ? undefined : timestampFromMicros(Math.floor(microsFromTimestamp(time) / day) * day);
      source.answer = (at) => {
        if ('next' in at) return undefined;
        const [after, before] = [truncate(at.modifiedAfter), truncate(at.modifiedBefore)];
        const records = [...source.rows]
          .map(([id, row]) => ({ id, ...row }))
          .filter(
            ({ modified = '' }) =>
              modified >= (after ?? '') && (before === undefined || (truncate(modified) ?? '') <= before),
          );
        return { records, next: undefined };
      };
    });
    expect(ok).toBe(false);
    expect(text).toContain('does not keep its bounds to a second');
  });

  test('pages without a "next" although there are more records', async () => {
    const { ok, text } = await probeOfList((source) => {
      for (let n = 6; n < 12; n += 1) source.put(`r${n}`, n, 3_600 - n * 60);
      source.answer = (at) =>
        'next' in at
          ? undefined
          : { records: [...source.rows].slice(0, at.pageSize).map(([id, row]) => ({ id, ...row })), next: undefined };
    });
    expect(ok).toBe(false);
    expect(text).toContain('names no next page');
  });
});

test.each<[string, ErrorCode, string]>([
  ['does not know the key', 'unauthorized', 'api_key'],
  ['does not let the key read', 'forbidden', 'scope feeds'],
  ['has no such feed', 'not-found', 'base_url'],
  ['does not answer', 'unavailable', 'try again'],
])('a service that %s fails the check, which says what to do', async (_what, code, advice) => {
  const { results } = await probeOfList((source) => {
    source.answer = () => {
      throw new AppError(code, 'GET /api/feeds/awards was refused.');
    };
  });
  expect(results).toEqual([{ name: 'awards: answers', ok: false, message: expect.stringContaining(advice) }]);
});

test('an empty feed is no failure', async () => {
  const { ok, text } = await probeOfList((source) => {
    source.rows.clear();
  });
  expect(ok).toBe(true);
  expect(text).toContain('no record with a time yet');
});
