import { expect, test } from 'vitest';
import { feedNames, feeds } from '#contract/feed.ts';
import { scenarioOf } from './scenario.ts';
import { nothingWide } from './wide-scenario.ts';
import { otherRecord } from './wider-story.ts';

const id = (digit: string) => `${digit.repeat(8)}-0000-4000-8000-000000000000`;

test.each(feedNames)('a record of the feed %s is made from the contract, as a feed that no story tells', (feed) => {
  const { id: key, body } = otherRecord(feed, { id: id('1'), event: id('2'), supplier: id('3'), file: id('4') });
  expect(String(body?.['id'])).toBe(key);
  const record = { ...body, modified: '2030-01-01T00:00:00.000000Z' };
  expect(feeds[feed].essentials.safeParse(record).error).toBeUndefined();
  const { event, supplier } = feeds[feed];
  expect(body?.[event]).toBe(event === 'id' ? key : id('2'));
  expect(supplier === null || body?.[supplier] === id('3')).toBe(true);
});

test('what version 2 of the generator draws leaves the world of version 1 as it was', () => {
  for (const number of ['1', '2', '3', '4', '5', '900002']) {
    const old = scenarioOf(`v1:${number}`);
    const { settings, ...wider } = scenarioOf(`v2:${number}`);
    expect(old.wide).toEqual(nothingWide);
    expect(settings.documents.slice(0, old.settings.documents.length)).toEqual(old.settings.documents);
    expect(old).toEqual({
      ...wider,
      settings: { ...settings, documents: old.settings.documents },
      wide: nothingWide,
      second: undefined,
    });
  }
});

test('what version 4 draws is whether flows also take the documents of whole events', () => {
  let taken = 0;
  for (let number = 1; number <= 50; number += 1) {
    const old = scenarioOf(`v3:${number}`);
    const { settings, ...rest } = scenarioOf(`v4:${number}`);
    const documents = settings.documents.filter((kind) => kind !== 'event-awards');
    taken += settings.documents.length - documents.length;
    expect({ ...rest, settings: { ...settings, documents } }).toEqual(old);
  }
  expect(taken).toBeGreaterThan(5);
});

test('what version 5 draws is whether flows also take what became of jobs', () => {
  let taken = 0;
  for (let number = 1; number <= 50; number += 1) {
    const old = scenarioOf(`v4:${number}`);
    const { settings, ...rest } = scenarioOf(`v5:${number}`);
    const documents = settings.documents.filter((kind) => kind !== 'job');
    taken += settings.documents.length - documents.length;
    expect({ ...rest, settings: { ...settings, documents } }).toEqual(old);
  }
  expect(taken).toBeGreaterThan(5);
});

test('what version 3 draws changes nothing but the quirks of sources', () => {
  const withoutQuirks = (seed: string) => {
    const { quirks: _quirks, second, ...rest } = scenarioOf(seed);
    return { ...rest, second: second && { ...second, quirks: undefined } };
  };
  for (let number = 1; number <= 50; number += 1)
    expect(withoutQuirks(`v3:${number}`)).toEqual(withoutQuirks(`v2:${number}`));
});
