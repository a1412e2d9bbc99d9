/** The options `--as-of`, `--from`, `--to` and `--against` of `mapping try` and `plan`, and what the commands print. */
import type { Travel, TravelledDocument } from '#bridge/assemble/time-travel.ts';
import { requireKept, travelInTime } from '#bridge/assemble/time-travel.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import { liveFlowOf } from '#bridge/shadow/live-flow.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, findFlow } from './bridge-command.ts';
import { type SubjectOptions, subjectIds } from './named-subjects.ts';
import { oneLine, tableOf } from './output.ts';

export interface TravelTimes {
  asOf?: Timestamp;
  from?: Timestamp;
  to?: Timestamp;
  against?: string;
}

/** Returns the times that the options name; undefined where they name none. Throws AppError `invalid` for half a range. */
export function travelOf({ asOf, from, to, against }: TravelTimes): Travel | undefined {
  if (asOf === undefined && from === undefined && to === undefined) {
    if (against !== undefined) throw new AppError('invalid', '--against needs a time: --as-of, or --from and --to.');
    return undefined;
  }
  if (asOf !== undefined && from === undefined && to === undefined) return { asOf };
  if (asOf === undefined && from !== undefined && to !== undefined) return { from, to };
  throw new AppError('invalid', 'Name one time with --as-of, or a range with both --from and --to.');
}

export interface TravelReport {
  readonly flow: string;
  /** The flow whose deliveries, or whose mapping, it is compared with. */
  readonly comparedWith: string;
  readonly by: 'sent' | 'made';
  readonly documents: readonly TravelledDocument[];
}

/** Makes the documents of another time. A shadow is compared with what its live flow had sent. */
export async function travelled(
  command: Pick<BridgeCommand, 'settings' | 'database' | 'clock'>,
  flow: FlowSettings,
  travel: Travel,
  { limit, against, ...named }: TravelTimes & SubjectOptions & { limit: number },
): Promise<TravelReport> {
  const { settings, database, clock } = command;
  requireKept(travel, settings, timestampNow(clock));
  const other = against === undefined ? undefined : findFlow(settings, against);
  if (other && other.source !== flow.source)
    throw new AppError(
      'invalid',
      `"${other.name}" has another source than "${flow.name}": their documents cannot be compared.`,
    );
  const sentBy = flow.shadow ? (liveFlowOf(flow, settings.flows)?.name ?? flow.name) : flow.name;
  const { events } = await subjectIds(command, [flow.source], named);
  const documents = await travelInTime(database, flow, { travel, events, limit, sentBy, against: other });
  return { flow: flow.name, comparedWith: other?.name ?? sentBy, by: other ? 'made' : 'sent', documents };
}

export function travelText({ flow, comparedWith, by, documents }: TravelReport): string {
  const than = by === 'sent' ? `what ${comparedWith} had sent by then` : `what ${comparedWith} makes of it`;
  const table = tableOf(
    ['at', 'would', 'kind', `differs from ${than} by`, 'why', 'key'],
    documents.map(({ at, action, kind, key, differences, reason }) => [
      at,
      action,
      kind,
      differences.map(oneLine).join('; '),
      reason === undefined ? '' : oneLine(reason),
      key,
    ]),
    'The mirror held nothing of this then.',
  );
  return `${flow}, of the versions of that time:\n${table}`;
}
