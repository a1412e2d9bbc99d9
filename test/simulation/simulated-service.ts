/**
 * What a source offers beside its feeds: the list of suppliers, in numbered pages whose rows move when a supplier is
 * renamed, jobs that make download links to files, and jobs of others that make events. Links work for 60 seconds.
 */

import { downloadLinkSeconds } from '#contract/file.ts';
import type { SourceFaults } from './hostile-source.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

export interface ManagedSupplier {
  readonly external_id: string;
  readonly name: string;
  readonly archived: boolean;
  readonly fields: Readonly<Record<string, string>>;
  readonly contacts: readonly { readonly name: string; readonly email: string }[];
}

interface ServiceAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

interface ServiceRequest {
  readonly method: string;
  readonly url: URL;
  readonly body: string;
}

/** A job that somebody has sent. What it answers in the end does not change. */
interface EventJob {
  readonly endsMs: number;
  readonly ended: { readonly status: 'COMPLETED' | 'FAILED'; readonly created_entity?: string };
}

interface LinkJob {
  readonly ids: readonly string[];
  readonly endsMs: number;
  readonly fails: boolean;
}

export class SimulatedService {
  readonly suppliers = new Map<string, ManagedSupplier>();
  /** By their ids. */
  readonly eventJobs = new Map<string, EventJob>();
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: SourceFaults;
  /** Pages of the list state how many suppliers there are. */
  readonly #counts: boolean;
  readonly #jobs = new Map<string, LinkJob>();

  constructor(world: World, options: { random: Random; faults: SourceFaults; counts: boolean }) {
    this.#world = world;
    this.#random = options.random;
    this.#faults = options.faults;
    this.#counts = options.counts;
  }

  /** Answers a request that is not for a feed; undefined for one that is. */
  answer({ method, url, body }: ServiceRequest): ServiceAnswer | 'cut' | undefined {
    const [, first, second, third, fourth] = url.pathname.split('/');
    const isDownload = first === 'files';
    if (second === 'feeds' && !isDownload) return undefined;
    const fault = this.#fault(isDownload);
    if (fault) return fault;
    if (isDownload) return this.#download(url, second ?? '');
    if (method === 'GET' && second === 'manage' && third === 'suppliers') return this.#list(url);
    if (method === 'POST' && second === 'jobs' && third === 'generate-file-download-links') return this.#submit(body);
    if (method === 'GET' && second === 'jobs' && fourth === undefined) return this.#job(third ?? '', url.origin);
    return answered(404, { detail: 'There is nothing here.' });
  }

  #fault(isDownload: boolean): ServiceAnswer | 'cut' | undefined {
    if (!this.#world.chaos) return undefined;
    const { cut, tooMany, serverError, truncated, errorBody, nothing } = this.#faults;
    if (this.#random.chance(cut)) return 'cut';
    if (this.#random.chance(tooMany)) return answered(429, {});
    if (this.#random.chance(serverError)) return answered(503, {});
    // Neither the feed nor the link tells a file's size or checksum: no reader could tell such a body from the file.
    if (this.#random.chance(errorBody + truncated + nothing) && !isDownload)
      return answered(200, { error: 'upstream timed out' });
    return undefined;
  }

  #list(url: URL): ServiceAnswer {
    const number = Number(url.searchParams.get('page_number') ?? 1);
    const size = Math.min(5, Number(url.searchParams.get('page_size') ?? 20));
    const rows = [...this.suppliers.values()].sort((a, b) =>
      a.name === b.name ? (a.external_id < b.external_id ? -1 : 1) : a.name < b.name ? -1 : 1,
    );
    const next = new URL(url);
    next.searchParams.set('page_number', String(number + 1));
    return answered(200, {
      result: rows.slice((number - 1) * size, number * size),
      ...(this.#counts ? { count: rows.length } : {}),
      next: number * size < rows.length ? next.href : null,
    });
  }

  #submit(body: string): ServiceAnswer {
    const { file_uuids: ids } = JSON.parse(body) as { file_uuids: string[] };
    const id = this.#random.uuid();
    const fails = this.#world.chaos && this.#random.chance(0.1);
    this.#jobs.set(id, { ids, endsMs: this.#world.nowMs + this.#random.whole(0, 3_000), fails });
    return answered(202, { id, type: 'GENERATE_FILE_DOWNLOAD_LINKS', status: 'PENDING' });
  }

  #job(id: string, origin: string): ServiceAnswer {
    const made = this.eventJobs.get(id);
    if (made) {
      const hasEnded = this.#world.nowMs >= made.endsMs;
      return answered(200, { id, type: eventJobType, ...(hasEnded ? made.ended : { status: 'PENDING' }) });
    }
    const job = this.#jobs.get(id);
    if (!job) return answered(404, { detail: 'There is no such job.' });
    const type = 'GENERATE_FILE_DOWNLOAD_LINKS';
    if (this.#world.nowMs < job.endsMs) return answered(200, { id, type, status: 'PENDING' });
    if (job.fails) return answered(200, { id, type, status: 'FAILED', errors: [{ message: 'no links today' }] });
    const links = job.ids.map((file) => ({
      file_uuid: file,
      file_name: `${file.slice(0, 8)}.txt`,
      download_url: `${origin}/files/${file}?until=${job.endsMs + downloadLinkSeconds * 1_000}`,
    }));
    return answered(200, { id, type, status: 'COMPLETED', detail: { data: links, errors: [] } });
  }

  #download(url: URL, file: string): ServiceAnswer {
    if (this.#world.nowMs > Number(url.searchParams.get('until'))) return answered(403, { detail: 'expired' });
    return { status: 200, headers: { 'content-type': 'text/plain' }, body: fileText(file) };
  }
}

export const eventJobType = 'CREATE_SOURCING_EVENT';

/** What a file holds. */
export function fileText(id: string): string {
  return `The bytes of ${id}.`;
}

function answered(status: number, body: object): ServiceAnswer {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}
