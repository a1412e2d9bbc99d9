/** Changes of a service's feeds in bulk: appended and announced as its commands do, without events behind them. */
import { randomUUID } from 'node:crypto';
import type { Installation } from '#cli/installation.ts';
import type { LocalPrograms } from '#cli/local-programs.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { appendFeedRecords } from '#service/feeds/append-feed-records.ts';
import { createUnitOfWork } from '#service/unit-of-work.ts';

/** The feed whose records make no documents for the local flow, so that only reading is measured. */
export const changedFeed = 'latest-bids';

const recordsOfEvent = 100;

export interface FeedChanges {
  /** One transaction: records of these numbers, in a version of their own. */
  append(numbers: readonly number[], version: number): Promise<void>;
  close(): Promise<void>;
}

export async function openFeedChanges(installation: Installation, { setup }: LocalPrograms): Promise<FeedChanges> {
  const { database } = installation.open;
  const signals = await installation.signals('service');
  const runUnit = createUnitOfWork({ database, signals });
  const supplier = randomUUID();
  return {
    append: async (numbers, version) => {
      const event = idOf('9000', Math.floor((numbers[0] ?? 0) / recordsOfEvent));
      const records = numbers.map((number) => ({
        id: idOf('8000', number),
        requests: [],
        content: {
          id: idOf('8000', number),
          sourcing_event: event,
          supplier,
          lot_name: `Lot ${number}`,
          bids: [{ value: String(version) }],
          bid_sheet_values: Array.from({ length: 8 }, (_, column) => ({
            column_name: `Column ${column}`,
            value: `The value of this column for lot ${number} in version ${version}`,
          })),
        },
      }));
      await runUnit((unit) =>
        appendFeedRecords(unit, {
          event: { id: event, organisationId: setup.organisation, name: 'Event', sourcingRequests: [] },
          now: timestampFromMs(Date.now()),
          changes: [{ feed: changedFeed, records }],
        }),
      );
    },
    close: () => signals.close(1_000),
  };
}

const idOf = (group: string, number: number) => `00000000-0000-4000-${group}-${number.toString(16).padStart(12, '0')}`;
