/**
 * Loads the bytes of files: a job of the service makes download links, and the links are downloaded. A link is valid
 * for 60 seconds, and a job for 50 files counts as much against the quota as a job for one. Therefore one job at a time
 * asks for the links of all waiting callers, and also for files that `load` has announced and that are not read yet. A
 * link that is too old is not tried. Source: API document, "Limits".
 */
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { SourceClient, SubmittedJob } from '#client/source-client.ts';
import type { FileContent } from '#connector/connector.ts';
import { directionMarks, downloadLinkSeconds, fileNotFound, filesPerLinkJobMax } from '#contract/file.ts';
import { uuid } from '#contract/scalars.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

export interface FileLoader {
  /**
   * Returns the files with these ids; a file that the service does not know is left out. The bytes are loaded by `read`
   * of each file, which may be called much later, and more than once. Rejects with AppError when the links cannot be
   * asked for.
   */
  load(ids: readonly string[], signal: AbortSignal): Promise<Map<string, FileContent>>;
}

/**
 * Less than the lifetime of a link: the job ended some time before the bridge saw that, and the download takes time to
 * start.
 */
const usableMs = (downloadLinkSeconds - 15) * 1000;
const jobMs = 60_000;
/** Upper bound of remembered links: more than a flow has in flight. A link that was forgotten is asked for again. */
const knownMax = 1_000;

interface Link {
  readonly name: string;
  /** A secret: it is enough to read the file. */
  readonly url: string;
  readonly createdMs: number;
}

/** The answer of a job for one file. */
type LinkAnswer = Link | 'not-found' | { error: string };

/** Ids that one job asks for together. */
interface LinkRequest {
  readonly ids: string[];
  readonly result: Promise<Map<string, LinkAnswer>>;
  readonly stop: AbortController;
  /** How many callers wait for the result. */
  waiting: number;
}

type FileCalls = Pick<SourceClient, 'submitJob' | 'waitForJob' | 'download'>;

export function createFileLoader(client: FileCalls, clock: Clock = systemClock): FileLoader {
  const links = new Map<string, Link>();
  /** Ids that `load` has announced and that are not read yet, in the order in which they came. */
  const unread = new Set<string>();
  /** The request that still gathers ids: its job is not submitted yet. */
  let gathering: LinkRequest | undefined;
  let lastJob: Promise<unknown> = Promise.resolve();

  function freshLink(id: string): Link | undefined {
    const link = links.get(id);
    return link && clock.nowMs() - link.createdMs < usableMs ? link : undefined;
  }

  function openRequest(): LinkRequest {
    const ids: string[] = [];
    const stop = new AbortController();
    const result = answer(ids, stop.signal, lastJob);
    lastJob = result.then(remember, () => undefined);
    return { ids, stop, result, waiting: 0 };
  }

  async function answer(
    ids: string[],
    signal: AbortSignal,
    earlier: Promise<unknown>,
  ): Promise<Map<string, LinkAnswer>> {
    await earlier;
    // Callers that ask in the same turn of the event loop share the job.
    await setImmediate();
    if (gathering?.ids === ids) gathering = undefined;
    signal.throwIfAborted();
    // An earlier job may have made some of the links meanwhile.
    const known = new Map<string, LinkAnswer>();
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

  function remember(answers: Map<string, LinkAnswer>): void {
    for (const [id, linkAnswer] of answers) {
      links.delete(id);
      if (typeof linkAnswer === 'object' && 'url' in linkAnswer) links.set(id, linkAnswer);
      else unread.delete(id);
    }
    for (const id of links.keys()) {
      if (links.size <= knownMax) break;
      links.delete(id);
    }
  }

  /** Returns the answer for this id from a job that is shared by all callers that wait now. */
  async function askFor(id: string, signal: AbortSignal): Promise<LinkAnswer> {
    signal.throwIfAborted();
    if (!gathering || (gathering.ids.length >= filesPerLinkJobMax && !gathering.ids.includes(id)))
      gathering = openRequest();
    const request = gathering;
    if (!request.ids.includes(id)) request.ids.push(id);
    request.waiting += 1;
    const { promise: aborted, reject: abort } = Promise.withResolvers<never>();
    const onAbort = () => {
      abort(signal.reason);
      request.waiting -= 1;
      if (request.waiting > 0) return;
      // No caller waits for this request any more. The next caller opens another one, as this one is stopped.
      if (gathering === request) gathering = undefined;
      request.stop.abort(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const answers = await Promise.race([request.result, aborted]);
      return answers.get(id) ?? { error: 'the job returned nothing for it' };
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (!signal.aborted) request.waiting -= 1;
    }
  }

  async function linkOf(id: string, signal: AbortSignal): Promise<Link> {
    const link = freshLink(id) ?? (await askFor(id, signal));
    if (link === 'not-found')
      throw new AppError('not-found', `The service does not know the file ${id} any more.`, {
        recovery: { do: 'skip' },
      });
    if ('error' in link)
      throw new AppError('unavailable', `The service made no link to the file ${id}: ${link.error}.`);
    return link;
  }

  async function read(id: string, signal: AbortSignal): Promise<Uint8Array> {
    const link = await linkOf(id, signal);
    const bytes = await client.download(link.url, signal).catch(async (error: unknown) => {
      if (!(error instanceof AppError) || error.code !== 'forbidden') throw error;
      // The link expired sooner than expected: tried once more with a new one.
      if (links.get(id) === link) links.delete(id);
      return client.download((await linkOf(id, signal)).url, signal);
    });
    unread.delete(id);
    return bytes;
  }

  return {
    async load(ids, signal) {
      // The service would refuse the whole job for one malformed id.
      const asked = [...new Set(ids)].flatMap((id) => uuid.safeParse(id).data ?? []);
      for (const id of asked) unread.add(id);
      for (const id of unread) {
        if (unread.size <= knownMax) break;
        unread.delete(id);
      }
      const answers = new Map<string, LinkAnswer>();
      await Promise.all(asked.map(async (id) => answers.set(id, freshLink(id) ?? (await askFor(id, signal)))));
      const contents = new Map<string, FileContent>();
      for (const givenId of ids) {
        const id = givenId.toLowerCase();
        const file = answers.get(id);
        if (file === undefined || file === 'not-found') continue;
        contents.set(givenId, { name: 'name' in file ? file.name : id, read: (readSignal) => read(id, readSignal) });
      }
      return contents;
    },
  };
}

/** Runs one job and returns its answer for each file. Rejects with AppError when the job fails or takes too long. */
async function askLinks(
  client: FileCalls,
  clock: Clock,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, LinkAnswer>> {
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

function linksOf({ detail }: SubmittedJob, createdMs: number): Map<string, LinkAnswer> {
  const answers = new Map<string, LinkAnswer>();
  for (const { file_uuid: id, error } of detail?.errors ?? [])
    if (id !== undefined)
      answers.set(id.toLowerCase(), error === fileNotFound ? 'not-found' : { error: textOf(error) });
  for (const { file_uuid: id, file_name: name, download_url: url } of detail?.data ?? [])
    if (id !== undefined && url !== undefined)
      answers.set(id.toLowerCase(), { name: name?.replaceAll(directionMarks, '') ?? id, url, createdMs });
  return answers;
}

function textOf(error: unknown): string {
  return (typeof error === 'string' ? error : (JSON.stringify(error) ?? 'no reason given')).slice(0, 500);
}
