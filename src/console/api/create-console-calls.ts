/**
 * The calls of the console, and what surrounds each of them: the audit log, and the prices that a viewer may not see. The
 * browser makes them by HTTP, an assistant by its tools.
 */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import { type BridgeStatus, readStatus } from '#bridge/operate/status/status.ts';
import { type ActionOutcome, type ActionSubject, recordAction } from '#platform/audit-log.ts';
import { timestampNow } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import type { Answer } from '#platform/http/endpoint.ts';
import { maySeePrices } from '../access/viewer.ts';
import { readForAll } from '../reading.ts';
import { shareRead } from '../shared-read.ts';
import { consoleApi } from './console-api.ts';
import type { ConsoleApiDeps, ConsoleCaller, ConsoleDeps, ConsoleEndpoint } from './console-call.ts';
import { withoutPrices } from './prices.ts';

export interface ConsoleCalls {
  readonly endpoints: readonly ConsoleEndpoint[];
  readonly status: () => Promise<BridgeStatus>;
  /** Runs the handler of an endpoint. When it fails, what it had noted for the caller is noted as failed, too. */
  readonly answer: (caller: ConsoleCaller, run: () => Promise<Answer>) => Promise<Answer>;
  /** Notes what the caller was not allowed to begin. */
  readonly refused: (caller: ConsoleCaller, subject: ActionSubject) => Promise<void>;
}

export function createConsoleCalls(deps: Omit<ConsoleDeps, 'isCurrent'>): ConsoleCalls {
  const { settings, reading, clock, certificates } = deps;
  const look = () => readStatus(reading, { settings, now: timestampNow(clock), ...certificates?.() });
  const status = shareRead(() => readForAll(look), clock);
  const note: ConsoleApiDeps['note'] = async (caller, subject) => {
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
    refused: (caller, subject) => record(deps, caller, subject, 'refused'),
  };
}

function record(
  { database, clock }: Pick<ConsoleDeps, 'database' | 'clock'>,
  { kind, name, from, through }: ConsoleCaller,
  subject: ActionSubject,
  outcome: ActionOutcome,
): Promise<void> {
  const details = { ...subject.details, ...(through && { through }) };
  const who = { kind, name } as const;
  return recordAction(database, 'bridge', { who, from, ...subject, details, when: timestampNow(clock), outcome });
}
