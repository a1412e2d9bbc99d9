/** The calls of the console, and what surrounds each of them: the audit log, and the prices that a viewer may not see. */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import { type BridgeStatus, readStatus } from '#bridge/operate/status/status.ts';
import { type ActionOutcome, type ActionSubject, recordAction } from '#platform/audit-log.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { Answer } from '#platform/http/endpoint.ts';
import { maySeePrices } from '../access/viewer.ts';
import { readForAll } from '../reading.ts';
import { shareRead } from '../shared-read.ts';
import { consoleApi } from './console-api.ts';
import type { ConsoleApiDeps, ConsoleCaller, ConsoleDeps, ConsoleEndpoint } from './console-call.ts';
import { withoutPrices } from './prices.ts';

interface ConsoleCalls {
  readonly endpoints: readonly ConsoleEndpoint[];
  readonly status: () => Promise<BridgeStatus>;
  /** Runs the handler of an endpoint. When it fails, what it had noted for the caller is noted as failed, too. */
  readonly answer: (caller: ConsoleCaller, run: () => Promise<Answer>) => Promise<Answer>;
}

export function createConsoleCalls(deps: ConsoleDeps): ConsoleCalls {
  const { settings, reading, clock, certificates } = deps;
  const look = () => readStatus(reading, { settings, now: timestampNow(clock), ...certificates?.() });
  const status = shareRead(() => readForAll(look), clock);
  const countNote = createNoteBound(clock);
  const note: ConsoleApiDeps['note'] = async (caller, subject) => {
    countNote(caller);
    await record(deps, caller, subject, 'allowed');
    caller.noted.push(subject);
  };
  return {
    endpoints: consoleApi({ ...deps, status: status.read, note, urlOf: createObjectUrls(settings.flows) }),
    status: status.read,
    answer: async (caller, run) => {
      try {
        const answer = await run();
        return maySeePrices(caller) ? answer : { ...answer, body: withoutPrices(answer.body) };
      } catch (error) {
        for (const subject of caller.noted) {
          const details = { ...subject.details, error: errorText(error).slice(0, 500) };
          // The error of the action says more than that of its record.
          await record(deps, caller, { ...subject, details }, 'failed').catch(() => undefined);
        }
        throw error;
      } finally {
        // What was noted has changed something, also where it failed half-way: the caller's next page shows it.
        if (caller.noted.length > 0) status.forget();
      }
    },
  };
}

/** Entries of the audit log cannot be deleted: so many a minute of each person who may change nothing. */
const notesPerMinute = 120;
const minuteMs = 60_000;

/** Returns a function that throws AppError `too-many` beyond the bound. */
function createNoteBound(clock: Clock): (caller: ConsoleCaller) => void {
  const counts = new Map<string, number>();
  let minute = Number.NaN;
  return ({ name, role }) => {
    if (role === 'operator') return;
    const now = Math.floor(clock.nowMs() / minuteMs);
    if (now !== minute) counts.clear();
    minute = now;
    const count = (counts.get(name) ?? 0) + 1;
    if (count > notesPerMinute)
      throw new AppError(
        'too-many',
        `The audit log takes ${notesPerMinute} entries a minute of a viewer. Wait a minute.`,
        {
          recovery: { do: 'retry', afterMs: minuteMs },
        },
      );
    counts.set(name, count);
  };
}

function record(
  { database, clock }: Pick<ConsoleDeps, 'database' | 'clock'>,
  { name, from }: ConsoleCaller,
  subject: ActionSubject,
  outcome: ActionOutcome,
): Promise<void> {
  const who = { kind: 'user', name } as const;
  return recordAction(database, 'bridge', { who, from, ...subject, when: timestampNow(clock), outcome });
}
