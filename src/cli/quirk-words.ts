/** The quirks of a service that misbehaves, as the command line names them. */
import type { MisbehaveOptions } from '#service/misbehave/misbehave.ts';
import { drawMisbehaviour, readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';

/** How many quirks `--misbehave random` draws at most. */
const drawnMost = 5;

/** What `--misbehave` chooses. Throws AppError `invalid` for a quirk that there is not. */
export function chosenQuirks(list: string, seed: number): MisbehaveOptions {
  const misbehaviour =
    list.trim() === 'random' ? drawMisbehaviour(seededFraction(`quirks ${seed}`), drawnMost) : readMisbehaviour(list);
  return { misbehaviour, seed: String(seed) };
}
