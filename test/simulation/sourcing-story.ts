/** What buyers and suppliers do at the source: they make events, bids and awards, and change them. */
import type { FeedName } from '#contract/feed.ts';
import type { Body, HostileSource, Write } from './hostile-source.ts';
import type { Random } from './random.ts';

interface StoredEvent {
  readonly id: string;
  readonly lots: readonly { name: string; award: string; bids: Map<string, string> }[];
  readonly questions: readonly string[];
}

export interface StorySize {
  readonly events: number;
  readonly suppliers: number;
  readonly lots: number;
}

export class SourcingStory {
  readonly #random: Random;
  readonly #source: HostileSource;
  readonly #size: StorySize;
  readonly suppliers: { id: string; external_id: string; name: string }[];
  readonly #events: StoredEvent[] = [];

  constructor(random: Random, source: HostileSource, size: StorySize) {
    this.#random = random;
    this.#source = source;
    this.#size = size;
    this.suppliers = Array.from({ length: size.suppliers }, (_, index) => ({
      id: this.#random.uuid(),
      external_id: `V-${index + 1}`,
      name: this.#random.pick(['Müller & Söhne', '株式会社山田', 'Acme "Chairs"', 'Иванов']),
    }));
  }

  get eventIds(): string[] {
    return this.#events.map(({ id }) => id);
  }

  /**
   * Makes one change, unless a transaction locks the records just now. With `agoMs` it happened before the bridge
   * began.
   */
  step(agoMs = 0): void {
    const steps = [
      () => this.#newEvent(),
      () => this.#award(),
      () => this.#award(),
      () => this.#award(),
      () => this.#award(),
      () => this.#award(),
      () => this.#awardAll(),
      () => this.#awardAll(),
      () => this.#withdrawAward(),
      () => this.#changeEvent(),
      () => this.#bid(),
      () => this.#bid(),
      () => this.#delete(),
    ];
    if (this.#events.length === 0) steps.splice(0, steps.length, () => this.#newEvent());
    const writes = this.#random.pick(steps)();
    if (writes.length === 0 || writes.some(({ feed, id }) => this.#source.isLocked(feed, id))) return;
    this.#source.write(writes, agoMs);
  }

  #newEvent(): Write[] {
    if (this.#events.length >= this.#size.events) return this.#changeEvent();
    const random = this.#random;
    const event: StoredEvent = {
      id: random.uuid(),
      lots: Array.from({ length: random.whole(1, this.#size.lots) }, (_, index) => ({
        name: `Lot ${index + 1}`,
        award: random.uuid(),
        bids: new Map(this.suppliers.map(({ id }) => [id, random.uuid()])),
      })),
      questions: [],
    };
    this.#events.push(event);
    const body = {
      name: `Office chairs ${this.#events.length}`,
      type: 'RFQ',
      status: 'OPEN',
      primary_currency: random.pick(['EUR', 'JPY']),
      secondary_currencies: random.chance(0.5) ? [{ code: 'USD', exchange_rate: '0.9' }] : [],
      tags: [{ name: 'Region', value: 'EMEA' }],
      ...(random.chance(0.5) ? { reference_id: `R-${this.#events.length}` } : {}),
      is_test: random.chance(0.1),
      suppliers: this.suppliers,
    };
    return [{ feed: 'sourcing-events', id: event.id, body }];
  }

  /** An event that is shown and not deleted. */
  #pickEvent(): { event: StoredEvent; body: Body } | undefined {
    const event = this.#random.pick(this.#events);
    const body = this.#source.current('sourcing-events', event.id);
    return body && body['status'] !== 'DELETED' ? { event, body } : undefined;
  }

  #award(): Write[] {
    const picked = this.#pickEvent();
    return picked ? [this.#awardOf(picked.event, this.#random.pick(picked.event.lots))] : [];
  }

  /** Closes an event: all its lots are awarded in one transaction, so with one stamp. */
  #awardAll(): Write[] {
    const picked = this.#pickEvent();
    if (!picked) return [];
    const closed: Write = { feed: 'sourcing-events', id: picked.event.id, body: { ...picked.body, status: 'CLOSED' } };
    return [closed, ...picked.event.lots.map((lot) => this.#awardOf(picked.event, lot))];
  }

  #awardOf(event: StoredEvent, lot: StoredEvent['lots'][number]): Write {
    const random = this.#random;
    const winners = this.suppliers.filter(() => random.chance(0.5));
    const awards = winners.map(({ id }) => ({
      supplier: id,
      share_awarded: winners.length === 1 ? '1' : '0.5',
      cost: `${random.whole(1, 999)}${random.pick(['', '.5', '.25'])}`,
      bid_sheet_values: [
        { column_name: 'Price', value: String(random.whole(1, 99)), currency: 'EUR' },
        { column_name: 'Note', value: random.pick(['', 'größer', '速い']) },
      ],
    }));
    return { feed: 'awards', id: lot.award, body: { sourcing_event: event.id, lot_name: lot.name, awards } };
  }

  #withdrawAward(): Write[] {
    const picked = this.#pickEvent();
    if (!picked) return [];
    const lot = this.#random.pick(picked.event.lots);
    const award = this.#source.current('awards', lot.award);
    return award ? [{ feed: 'awards', id: lot.award, body: { ...award, awards: [] } }] : [];
  }

  #changeEvent(): Write[] {
    const picked = this.#pickEvent();
    if (!picked) return [];
    const random = this.#random;
    const change = random.pick<() => Body>([
      () => ({ name: `Office chairs (${random.whole(2, 99)})` }),
      () => ({ tags: [{ name: 'Region', value: random.pick(['APAC', 'EMEA']) }] }),
      () => ({ status: random.pick(['OPEN', 'PAUSED', 'CLOSED']) }),
      () => ({
        suppliers: (picked.body['suppliers'] as Body[]).map((supplier) => ({
          ...supplier,
          name: `Supplier ${random.whole(1, 9)}`,
        })),
      }),
    ])();
    return [{ feed: 'sourcing-events', id: picked.event.id, body: { ...picked.body, ...change } }];
  }

  #bid(): Write[] {
    const picked = this.#pickEvent();
    if (!picked) return [];
    const random = this.#random;
    const lot = random.pick(picked.event.lots);
    const [supplier, id] = random.pick([...lot.bids]);
    const withdrawn = random.chance(0.2);
    const body = {
      sourcing_event: picked.event.id,
      supplier,
      lot_name: lot.name,
      bids: withdrawn ? [] : [{ value: String(random.whole(1, 999)) }],
      bid_sheet_values: withdrawn ? [] : [{ column_name: 'Price', value: String(random.whole(1, 99)) }],
    };
    return [{ feed: 'latest-bids', id, body }];
  }

  /** Deletes an event: it is shown once more, as deleted; its awards and bids are no longer shown. */
  #delete(): Write[] {
    const picked = this.#random.chance(0.3) ? this.#pickEvent() : undefined;
    if (!picked) return [];
    const gone = (feed: FeedName, id: string): Write[] =>
      this.#source.current(feed, id) ? [{ feed, id, body: null }] : [];
    return [
      { feed: 'sourcing-events', id: picked.event.id, body: { ...picked.body, status: 'DELETED' } },
      ...picked.event.lots.flatMap(({ award, bids }) => [
        ...gone('awards', award),
        ...[...bids.values()].flatMap((id) => gone('latest-bids', id)),
      ]),
    ];
  }
}
