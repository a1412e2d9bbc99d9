/**
 * Simulated buyers and suppliers who go on until they are told to finish, and what their awards should have become in an
 * ERP, computed from the buyers' screens.
 */
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';
import { Decimal } from '#contract/decimal.ts';
import { listEnvelope } from '#contract/list.ts';
import { systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';

/** By `<event>/<supplier>`: the purchases, each a list of lines `<lot>: <quantity> at <unit price>`. */
export type Purchases = Record<string, string[][]>;

export interface Story {
  readonly events: number;
  readonly failure: string | undefined;
  /** Starts no further event; resolves when the current one is played to its end. */
  finish(): Promise<void>;
}

/** The sixth plot is a Dutch auction. Its bids are volumes with prices, which a flow with columns does not take. */
const isDutch = (number: number) => number % 8 === 6;

/** Plays events until `finish`, at the latest until the end of the test file. */
export function startStory(client: SourceClient, seed: number): Story {
  const finishing = new AbortController();
  const stop = new AbortController();
  let events = 0;
  let failure: unknown;
  async function play(): Promise<void> {
    for (let number = 1; !finishing.signal.aborted; number += 1) {
      if (isDutch(number)) continue;
      await playStory({
        client,
        clock: systemClock,
        seed: seed + number,
        events: 1,
        firstEvent: number,
        suppliers: 5,
        lots: 6,
        pauseMs: 50,
        print: () => undefined,
        signal: stop.signal,
      });
      events += 1;
    }
  }
  const playing = play().catch((error: unknown) => {
    failure = error;
  });
  closeAtEnd(async () => {
    finishing.abort();
    stop.abort();
    await playing;
  });
  return {
    get events() {
      return events;
    },
    get failure() {
      return failure === undefined ? undefined : `The story failed: ${errorText(failure)}`;
    },
    finish: async () => {
      finishing.abort();
      await playing;
      if (failure !== undefined) throw failure;
    },
  };
}

const values = z.record(z.string(), z.string().nullable());
const deskEvent = z.looseObject({
  status: z.string(),
  lots: z.array(z.looseObject({ name: z.string(), values })),
  bids: z.array(z.looseObject({ lot: z.string(), supplier: z.string(), values: values.nullable() })),
  scenarios: z.array(
    z.looseObject({
      awarded: z.boolean(),
      awards: z.array(z.looseObject({ lot: z.string(), supplier: z.string(), share_awarded: z.string() })),
    }),
  ),
});

/** The purchases that should exist, computed from the buyers' screens. */
export async function awardsAtDesk(client: SourceClient): Promise<Purchases> {
  const lines = new Map<string, string[]>();
  const list = await client.call({ method: 'GET', path: '/desk/events?page_size=1000' }, listEnvelope);
  for (const { id } of list.result) {
    const event = await client.call({ method: 'GET', path: `/desk/events/${String(id)}` }, deskEvent);
    if (event.status !== 'CLOSED') continue;
    for (const { lot, supplier, share_awarded: share } of event.scenarios.find(({ awarded }) => awarded)?.awards ??
      []) {
      const volume = event.lots.find(({ name }) => name === lot)?.values['Annual Volume'];
      const bid = event.bids.find((candidate) => candidate.lot === lot && candidate.supplier === supplier);
      const quantity = new Decimal(volume ?? '').times(share);
      const key = `${String(id)}/${supplier}`;
      lines.set(key, [...(lines.get(key) ?? []), lineText(lot, quantity.toFixed(), bid?.values?.['Unit Price'] ?? '')]);
    }
  }
  return Object.fromEntries([...lines].map(([key, texts]) => [key, [texts.sort()]]));
}

/** A line of a purchase, with its numbers without superfluous zeros. */
export const lineText = (lot: string, quantity: string, unitPrice: string) =>
  `${lot}: ${new Decimal(quantity).toFixed()} at ${new Decimal(unitPrice).toFixed()}`;
