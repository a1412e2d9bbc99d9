/**
 * Removes the bytes of uploads that never became files, a day after they began. An upload is first marked as abandoned
 * in SQL; from then on it cannot become a file, so bytes that are removed here are never in use. Two processes may do
 * this at once.
 */
import { addMicros } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';
import { releaseUploads } from './record-files.ts';
import type { FileStorage } from './storage/file-storage.ts';

const keptMs = 24 * 60 * 60 * 1000;
const batchSize = 100;
/** How long closing waits. A removal that is interrupted is repeated by the next run. */
const patienceMs = 1_000;

export interface UploadSweep {
  /**
   * Starts a run unless one is running. The caller does not await it: a slow storage must not delay the rest of the
   * sweep.
   */
  start(): void;
  /** Stops after the file that is being removed, but waits at most a second for a storage that does not answer. */
  close(): Promise<void>;
}

/** Creates the upload sweep. A failure is logged, and the next run tries again. */
export function createUploadSweep(deps: {
  database: Sql;
  storage: FileStorage;
  clock: Clock;
  log: Logger;
}): UploadSweep {
  const stop = new AbortController();
  let running: Promise<void> | undefined;
  return {
    start() {
      running ??= removeAbandoned(deps, stop.signal)
        .catch((err: unknown) => {
          if (!stop.signal.aborted)
            deps.log.warn({ err }, 'bytes of abandoned uploads could not be removed; the next sweep tries again');
        })
        .finally(() => {
          running = undefined;
        });
    },
    close: async () => {
      stop.abort();
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, patienceMs);
      await Promise.race([running, late]);
      clearTimeout(timer);
    },
  };
}

async function removeAbandoned(
  { database, storage, clock }: { database: Sql; storage: FileStorage; clock: Clock },
  signal: AbortSignal,
): Promise<void> {
  const startedBefore = addMicros(timestampNow(clock), -keptMs * 1000);
  while (!signal.aborted) {
    const uploads = await database.query<{ id: string }>(
      // An upload that has become a file since it was found is left alone.
      `update service.files set state = 'abandoned'
       where state <> 'file' and id in (
         select id from service.files where state <> 'file' and created < $1 order by created limit ${batchSize})
       returning id`,
      [startedBefore],
    );
    if (uploads.length === 0) return;
    await releaseUploads(
      database,
      uploads.map(({ id }) => id),
    );
    for (const { id } of uploads) {
      if (signal.aborted) return;
      await storage.remove(id);
    }
    await database.query('delete from service.files where id = any($1::uuid[])', [uploads.map(({ id }) => id)]);
  }
}
