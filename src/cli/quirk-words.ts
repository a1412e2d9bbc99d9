/** The quirks of a service that misbehaves, as the command line names them. */
import type { MisbehaveOptions } from '#service/misbehave/misbehave.ts';
import { drawMisbehaviour, readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { calmedGroups, type Quirk, quirkTable } from '#service/misbehave/quirk-table.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';
import { tableOf } from './output.ts';

/** How many quirks `--misbehave random` draws at most. */
const drawnMost = 5;

/** What `--misbehave` chooses. Throws AppError `invalid` for a quirk that there is not. */
export function chosenQuirks(list: string, seed: number): MisbehaveOptions {
  const misbehaviour =
    list.trim() === 'random' ? drawMisbehaviour(seededFraction(`quirks ${seed}`), drawnMost) : readMisbehaviour(list);
  return { misbehaviour, seed: String(seed) };
}

/** The table that `--misbehave list` prints. */
export function listOfQuirks(): string {
  const named = ({ name, parameter }: Quirk) => (parameter ? `${name}=${parameter.fallback}` : name);
  const rows = quirkTable.map((quirk) => [quirk.group, named(quirk), quirk.parameter?.what, quirk.does]);
  return [
    tableOf(['GROUP', 'QUIRK', 'NUMBER', 'WHAT IT DOES'], rows),
    '',
    `The number may be left out. "random" draws some by --misbehave-seed. POST /misbehave/calm stops: ${calmedGroups.join(', ')}.`,
  ].join('\n');
}
