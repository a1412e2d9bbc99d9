/**
 * The bytes of files: links by jobs, and the files through the links. A link lives for 60 seconds and a job for up to 50
 * costs as much as a job for one, so links are asked for together, for those who wait and for what was announced by
 * `load` and is not read yet, one job at a time; one that is too old is not tried. Source: API document, "Limits".
 */
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { SourceClient, SubmittedJob } from '#client/source-client.ts';
import type { FileContent } from '#connector/connector.ts';
import { downloadLinkSeconds, fileNotFound, filesPerLinkJobMax } from '#contract/file.ts';
import { uuid } from '#contract/scalars.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

export interface FileLoader {
  /**
   * The files with these ids; one that the service does not know is left out. Their bytes are loaded by `read`, which
   * may be called long after, and more than once. Throws AppError when the links cannot be asked for.
   */
  load(ids: readonly string[], signal: AbortSignal): Promise<Map<string, FileContent>>;
}

/** A job has ended some time before it is seen to have, and the download has to begin in time. */
const usableMs = (downloadLinkSeconds - 15) * 1000;
const jobMs = 60_000;
/** More than a flow works on at once; what is forgotten is asked for again. */
const knownMax = 1_000;

interface Link {
  readonly name: string;
  /** A secret: whoever has it may read the file. */
  readonly url: string;
  readonly sinceMs: number;
}

/** What a job says of a file. */
type Found = Link | 'not-found' | { error: string };

interface Batch {
  readonly ids: string[];
  readonly result: Promise<Map<string, Found>>;
  readonly stop: AbortController;
  waiting: number;
}

type FileCalls = Pick<SourceClient, 'submitJob' | 'waitForJob' | 'download'>;

export function createFileLoader(client: FileCalls, clock: Clock = systemClock): FileLoader {
  const links = new Map<string, Link>();
  /** Announced and not read yet, in the order in which they came. */
  const unread = new Set<string>();
  /** Still gathers ids: its job is not submitted yet. */
  let gathering: Batch | undefined;
  let lastJob: Promise<unknown> = Promise.resolve();

  function freshLink(id: string): Link | undefined {
    const link = links.get(id);
    return link && clock.nowMs() - link.sinceMs < usableMs ? link : undefined;
  }

  function openBatch(): Batch {
    const ids: string[] = [];
    const stop = new AbortController();
    const result = work(ids, stop.signal, lastJob);
    lastJob = result.then(remember, () => undefined);
    return { ids, stop, result, waiting: 0 };
  }

  async function work(ids: string[], signal: AbortSignal, before: Promise<unknown>): Promise<Map<string, Found>> {
    await before;
    // Those who ask in the same moment are in it, too.
    await setImmediate();
    if (gathering?.ids === ids) gathering = undefined;
    signal.throwIfAborted();
    // An earlier job may have given some of them by now.
    const known = new Map<string, Found>();
    for (const id of ids) {
      const link = freshLink(id);
      if (link) known.set(id, link);
    }
    const asked = ids.filter((id) => !known.has(id));
    if (asked.length === 0) return known;
    for (const id of unread) {
      if (asked.length >= filesPerLinkJobMax) break;
      if (!ids.includes(id) && !freshLink(id)) asked.push(id);
    }
    return new Map([...known, ...(await askLinks(client, clock, asked, signal))]);
  }

  function remember(found: Map<string, Found>): void {
    for (const [id, link] of found) {
      links.delete(id);
      if (typeof link === 'object' && 'url' in link) links.set(id, link);
      else unread.delete(id);
    }
    for (const id of links.keys()) {
      if (links.size <= knownMax) break;
      links.delete(id);
    }
  }

  /** The id's link, from a job that everybody who waits now shares. */
  async function askFor(id: string, signal: AbortSignal): Promise<Found> {
    signal.throwIfAborted();
    if (!gathering || (gathering.ids.length >= filesPerLinkJobMax && !gathering.ids.includes(id)))
      gathering = openBatch();
    const batch = gathering;
    if (!batch.ids.includes(id)) batch.ids.push(id);
    batch.waiting += 1;
    const { promise: givenUp, reject: giveUp } = Promise.withResolvers<never>();
    const onAbort = () => {
      giveUp(signal.reason);
      batch.waiting -= 1;
      if (batch.waiting > 0) return;
      // Of no use to anybody any more; whoever comes now needs another.
      if (gathering === batch) gathering = undefined;
      batch.stop.abort(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const found = await Promise.race([batch.result, givenUp]);
      return found.get(id) ?? { error: 'the job did not speak of it' };
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (!signal.aborted) batch.waiting -= 1;
    }
  }

  async function linkOf(id: string, signal: AbortSignal): Promise<Link> {
    const found = freshLink(id) ?? (await askFor(id, signal));
    if (found === 'not-found')
      throw new AppError('not-found', `The service does not know the file ${id} any more.`, {
        recovery: { do: 'skip' },
      });
    if ('error' in found)
      throw new AppError('unavailable', `The service gave no link to the file ${id}: ${found.error}.`);
    return found;
  }

  async function read(id: string, signal: AbortSignal): Promise<Uint8Array> {
    const link = await linkOf(id, signal);
    const bytes = await client.download(link.url, signal).catch(async (error: unknown) => {
      if (!(error instanceof AppError) || error.code !== 'forbidden') throw error;
      // Expired sooner than thought: once more with a new one.
      if (links.get(id) === link) links.delete(id);
      return client.download((await linkOf(id, signal)).url, signal);
    });
    unread.delete(id);
    return bytes;
  }

  return {
    async load(ids, signal) {
      // An id that is none would have the whole job refused.
      const asked = [...new Set(ids)].flatMap((id) => uuid.safeParse(id).data ?? []);
      for (const id of asked) unread.add(id);
      for (const id of unread) {
        if (unread.size <= knownMax) break;
        unread.delete(id);
      }
      const found = new Map<string, Found>();
      await Promise.all(asked.map(async (id) => found.set(id, freshLink(id) ?? (await askFor(id, signal)))));
      const contents = new Map<string, FileContent>();
      for (const asId of ids) {
        const id = asId.toLowerCase();
        const file = found.get(id);
        if (file === undefined || file === 'not-found') continue;
        contents.set(asId, { name: 'name' in file ? file.name : id, read: (reading) => read(id, reading) });
      }
      return contents;
    },
  };
}

/** One job, and what it says of each file; rejects when it fails or takes too long. */
async function askLinks(
  client: FileCalls,
  clock: Clock,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, Found>> {
  const submitted = await client.submitJob(
    'GENERATE_FILE_DOWNLOAD_LINKS',
    { file_uuids: [...ids] },
    randomUUID(),
    signal,
  );
  const job = await client.waitForJob(submitted.id, jobMs, signal);
  if (job.status !== 'COMPLETED')
    throw new AppError('unavailable', `The job ${job.id} for download links has failed: ${textOf(job.errors)}.`);
  return linksOf(job, clock.nowMs());
}

function linksOf({ detail }: SubmittedJob, sinceMs: number): Map<string, Found> {
  const found = new Map<string, Found>();
  for (const { file_uuid: id, error } of detail?.errors ?? [])
    if (id !== undefined) found.set(id.toLowerCase(), error === fileNotFound ? 'not-found' : { error: textOf(error) });
  for (const { file_uuid: id, file_name: name, download_url: url } of detail?.data ?? [])
    if (id !== undefined && url !== undefined) found.set(id.toLowerCase(), { name: name ?? id, url, sinceMs });
  return found;
}

function textOf(error: unknown): string {
  return (typeof error === 'string' ? error : (JSON.stringify(error) ?? 'no reason given')).slice(0, 500);
}
