/**
 * The simulator plays buyers and suppliers. It uses only `/api` and `/desk` over HTTP, as an organisation would. The
 * same seed plays the same story.
 */
import type { Clock } from '#platform/clock.ts';
import { plots } from './plots.ts';
import { createRandom } from './random.ts';
import { deliveryPlaces } from './sheet.ts';
import { createSimulatorStage, type SimulatorStage, type StoryClient } from './stage.ts';

export interface StoryOptions {
  client: StoryClient;
  clock: Clock;
  seed: number;
  events: number;
  /** The number of the first event, for a story that is played in parts. Default 1. */
  firstEvent?: number;
  suppliers: number;
  lots: number;
  /** The pause between two steps of an event, in milliseconds. */
  pauseMs: number;
  /** Called with one line of text for each step, for the terminal. */
  print: (line: string) => void;
  signal?: AbortSignal;
}

/** Plays the story to its end; rejects when the service refuses a step, and ends early when the signal aborts. */
export async function playStory(options: StoryOptions): Promise<void> {
  const { print, signal, clock, lots } = options;
  const random = createRandom(options.seed);
  const stage = createSimulatorStage(options);
  const first = options.firstEvent ?? 1;
  try {
    const suppliers = await createSuppliers(stage, options.suppliers);
    if (first === 1) print(`${suppliers.length} suppliers are known to the service`);
    for (let number = first; number < first + options.events; number += 1) {
      await plots[(number - 1) % plots.length]?.({ stage, clock, random, number, suppliers, lots, print });
      await stage.pause();
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

/** Creates or updates the suppliers, and returns their external ids. */
async function createSuppliers(stage: SimulatorStage, count: number): Promise<string[]> {
  const externalIds = Array.from({ length: count }, (_, index) => `SUP-${String(index + 1).padStart(3, '0')}`);
  await stage.changeSuppliers(
    externalIds.map((externalId, index) => ({
      external_id: externalId,
      name: `Supplier ${index + 1} (${deliveryPlaces[index % deliveryPlaces.length]})`,
      contacts: [{ name: 'Sales', email: `sales@${externalId.toLowerCase()}.example` }],
    })),
  );
  return externalIds;
}
