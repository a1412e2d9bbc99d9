/** The conformance of the http connector with a list of steps: the example cloud-to-guided-sourcing and its target. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { conformance } from '#connector/testing/conformance.ts';
import type { EditedField } from '#connector/testing/target.ts';
import { systemClock } from '#platform/clock.ts';
import http from '../../../connectors/http/index.ts';
import { type GuidedSourcing, type Item, startGuidedSourcing, titleMax } from './guided-sourcing.ts';
import { guidedSourcingSettings } from './guided-sourcing-settings.ts';

// A document takes a dozen requests, and the check of the server's errors disturbs each of them several times.
vi.setConfig({ testTimeout: 180_000 });

let target: GuidedSourcing;
beforeAll(async () => {
  target = await startGuidedSourcing(systemClock);
});
afterAll(() => target.close());

for (const { title, run } of conformance({
  connector: http,
  verified: 'real server',
  against: 'a guided sourcing API of the tests, on Node',
  kinds: ['event-awards'],
  proxy: { protocol: 'http', address: () => target.address },
  // The limits would only make the tests slow.
  settings: (address) => ({ ...guidedSourcingSettings(address), limits: {} }),
  adapt: inTarget,
  held: async (document) => {
    const item = itemOf(document);
    // A state that half of the steps have left is an object of the document, too.
    if (!item?.award) return isLeftOver(document) ? [{ reference: document.key, document: {} }] : [];
    const { total, currency, lots } = item.award;
    const bidders = target.events.get(eventOf(document))?.bidders ?? [];
    const nameOf = (wanted: string) => bidders.find(({ vendor }) => vendor === wanted)?.name;
    const lines = lots.map(({ vendor, ...line }) => ({
      ...line,
      supplier: { external_id: vendor, name: nameOf(vendor) },
    }));
    const held = { currency, total_cost: total, lines, bid_sheet_csv: item.sheet };
    return [{ reference: item.externalId, document: held }];
  },
  poison: (document) =>
    'event' in document ? { ...document, event: { ...document.event, name: 'x'.repeat(titleMax + 1) } } : document,
  edit: async (document, n) => edit(itemOf(document), n),
  remove: async (document) =>
    target.events.get(eventOf(document))?.items.delete(document.key) ? 'missing' : undefined,
  notApplicable: {
    'expired login': 'an API key does not expire',
    read: 'it has no list of suppliers or requisitions',
    'read again': 'it has no list of suppliers or requisitions',
    'stopped read': 'it has no list of suppliers or requisitions',
  },
}))
  test(title, run);

test('nothing was done twice in any of these checks', () => {
  expect(target.faults).toEqual([]);
});

function isLeftOver(document: Document): boolean {
  return itemOf(document) !== undefined || target.events.get(eventOf(document))?.state === 'draft';
}

function itemOf(document: Document): Item | undefined {
  return target.events.get(eventOf(document))?.items.get(document.key);
}

/** What a buyer may change on the screens of the target, and the fields that differ then. */
function edit(item: Item | undefined, n: number): EditedField[] | undefined {
  const { award } = item ?? {};
  const [first, ...others] = award?.lots ?? [];
  if (!item || !award || !first) return undefined;
  const { total } = award;
  const place = `award.lots[${first.lot}]`;
  const added = { lot: 'Fracht', vendor: 'V-9', share: '1', cost: '9.90' };
  const edits: [Partial<Item>, ...EditedField[]][] = [
    [{ award: { ...award, total: '1234567.8904' } }, { name: 'award.total', held: '1234567.8904' }],
    // The same number, typed in another way.
    [{ award: { ...award, total: `${total}${total.includes('.') ? '' : '.'}00` } }],
    [{ title: 'Other "title"' }, { name: 'title', held: 'Other "title"' }],
    [{ sheet: 'lot\r\n' }, { name: 'sheet', held: 'lot\r\n' }],
    [
      { award: { ...award, lots: others } },
      ...['lot', 'vendor', 'share', 'cost'].map((member) => ({ name: `${place}.${member}`, held: undefined })),
    ],
    [
      { award: { ...award, lots: [first, ...others, added] } },
      { name: 'award.lots[Fracht].lot', held: 'Fracht' },
      { name: 'award.lots[Fracht].vendor', held: 'V-9' },
      { name: 'award.lots[Fracht].share', held: '1' },
      { name: 'award.lots[Fracht].cost', held: '9.9' },
    ],
  ];
  const [changed, ...differs] = edits[n] ?? [];
  if (!changed) return undefined;
  Object.assign(item, changed);
  return differs;
}

function eventOf(document: Document): string {
  return 'event' in document ? document.event.id : '';
}

/** With the tag that names the target's event, which the target then has. */
function inTarget(document: Document): Document {
  if (document.kind !== 'event-awards') return document;
  const { event } = document;
  target.addEvent(event.id);
  return { ...document, event: { ...event, tags: [{ name: 'Ariba id', value: event.id }, ...event.tags] } };
}
