/**
 * What happens at the source beside events, bids and awards: suppliers answer questions and attach files, the list of
 * suppliers changes, and so do the records of every other feed of the contract.
 */
import { type FeedName, feedNames, feeds } from '#contract/feed.ts';
import { completeRecords } from '../harness/complete-records.ts';
import type { Body, HostileSource, Write } from './hostile-source.ts';
import type { Random } from './random.ts';
import type { ManagedSupplier, SimulatedService } from './simulated-service.ts';
import type { SourcingStory } from './sourcing-story.ts';
import type { WideScenario } from './wide-scenario.ts';

/** The feeds whose records a story makes itself; those of any other feed are made from the contract's row of the feed. */
const toldFeeds: readonly FeedName[] = ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'];

interface Answer {
  readonly id: number;
  readonly event: string;
  readonly supplier: string;
  readonly question: string;
}

export class WiderStory {
  readonly #random: Random;
  readonly #source: HostileSource;
  readonly #service: SimulatedService;
  readonly #story: SourcingStory;
  readonly #size: WideScenario;
  readonly #answers: Answer[] = [];
  readonly #questions: readonly string[];
  /** Few files, so that answers share them. */
  readonly #files: readonly string[];

  constructor(
    random: Random,
    world: { source: HostileSource; service: SimulatedService; story: SourcingStory },
    size: WideScenario,
  ) {
    this.#random = random;
    this.#source = world.source;
    this.#service = world.service;
    this.#story = world.story;
    this.#size = size;
    this.#questions = Array.from({ length: 3 }, () => random.uuid());
    this.#files = Array.from({ length: 5 }, () => random.uuid());
  }

  /** The list of suppliers as it is before the bridge begins: all that events name, and others. */
  fillList(): void {
    if (!this.#size.suppliers) return;
    const others = Array.from({ length: this.#size.suppliers.others }, (_, index) => ({
      external_id: `L-${index + 1}`,
    }));
    for (const { external_id: key } of [...this.#story.suppliers, ...others])
      this.#service.suppliers.set(key, this.#entry(key));
  }

  #entry(key: string): ManagedSupplier {
    const random = this.#random;
    return {
      external_id: key,
      name: `${random.pick(['Zeta', 'Alpha', 'Müller', '山田'])} ${random.whole(1, 99)}`,
      archived: random.chance(0.2),
      fields: random.chance(0.5) ? { VAT: String(random.whole(1, 9)), City: random.pick(['Köln', '東京']) } : {},
      contacts: random.chance(0.5) ? [{ name: 'Ann', email: `ann${random.whole(1, 3)}@example.com` }] : [],
    };
  }

  /** Makes one change, unless a transaction locks the record just now. */
  step(): void {
    const random = this.#random;
    const others = feedNames.filter((feed) => !toldFeeds.includes(feed));
    const write = random.pick<() => Write | undefined>([
      () => this.#answer(),
      () => this.#answer(),
      () => this.#answer(),
      () => this.#changeList(),
      ...others.map((feed) => () => this.#other(feed)),
    ])();
    if (write && !this.#source.isLocked(write.feed, write.id)) this.#source.write([write]);
  }

  #changeList(): undefined {
    const key = this.#random.pick([...this.#service.suppliers.keys(), `L-${this.#random.whole(1, 12)}`]);
    this.#service.suppliers.set(key, this.#entry(key));
  }

  #anyEvent(): string | undefined {
    const { eventIds } = this.#story;
    return eventIds.length === 0 ? undefined : this.#random.pick(eventIds);
  }

  #answer(): Write | undefined {
    const event = this.#anyEvent();
    if (event === undefined) return undefined;
    const supplier = this.#random.pick(this.#story.suppliers).id;
    const question = this.#random.pick(this.#questions);
    const random = this.#random;
    const known = this.#answers.find(
      (answer) => answer.event === event && answer.supplier === supplier && answer.question === question,
    );
    const answer = known ?? { id: this.#answers.length + 1, event, supplier, question };
    if (!known) this.#answers.push(answer);
    const files = this.#files.filter(() => random.chance(0.2));
    const text = random.pick(['', 'yes', 'größer', '速い']);
    const body = {
      id: answer.id,
      sourcing_event: event,
      supplier,
      question_uuid: question,
      ...(text === '' ? {} : { value: text }),
      ...(random.chance(0.2) ? { comment: 'of course' } : {}),
      ...(files.length > 0 || random.chance(0.3) ? { document_file_uuids: files } : {}),
    };
    return { feed: 'rfi-responses', id: String(answer.id), body };
  }

  #other(feed: FeedName): Write | undefined {
    const event = this.#anyEvent();
    if (event === undefined) return undefined;
    const { id } = this.#random.pick(this.#story.suppliers);
    const write = otherRecord(feed, {
      id: this.#random.uuid(),
      event,
      supplier: id,
      file: this.#random.pick(this.#files),
    });
    return write;
  }
}

/** A record of any feed, complete as the contract has it, about this event, this supplier and this file. */
export function otherRecord(feed: FeedName, ids: { id: string; event: string; supplier: string; file: string }): Write {
  const { event, supplier, files } = feeds[feed];
  const complete: Body = completeRecords[feed];
  const id = typeof complete['id'] === 'number' ? Number.parseInt(ids.id.slice(0, 8), 16) : ids.id;
  const body = {
    ...complete,
    id,
    ...(event === 'id' ? {} : { [event]: ids.event }),
    ...(supplier === null ? {} : { [supplier]: ids.supplier }),
    ...(files === null ? {} : { [files]: [ids.file] }),
  };
  return { feed, id: String(id), body };
}
