/**
 * Finds out whether a job whose POST ended uncertain has taken effect. The jobs since the intent are read first: a job
 * that is not known here and has made what carries our reference is ours. Then the events, or the requests, with that
 * reference. It is certain that nothing was made only where the list of jobs was read to the time of the intent, and no
 * job in it can be ours.
 */
import { z } from 'zod';
import { compareText } from '#bridge/documents/text-order.ts';
import { bodyJson } from '#bridge/mirror/body-json.ts';
import { queryOf, readPages } from '#client/list-page.ts';
import { AnswerError } from '#client/read-answer.ts';
import { jobTypeNames } from '#contract/job.ts';
import { msFromTimestamp, parseTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { IntakeWork } from '../intake-deps.ts';
import { readClaimed } from './event-store.ts';
import { jobTypeOf } from './job-intent.ts';
import { knownJobs, type MadeOf, type OpenJob } from './job-store.ts';
import { readEventsSince } from './read-events.ts';

export type Trace =
  | { readonly is: 'entity'; readonly entity: string }
  /** A job that makes no entity has ended. */
  | { readonly is: 'done' }
  | { readonly is: 'job'; readonly uuid: string }
  /** Certain. */
  | { readonly is: 'none' }
  /** Asked again later, it may be clear. */
  | { readonly is: 'perhaps'; readonly why: string }
  /** Nothing that could be asked tells. */
  | { readonly is: 'unclear'; readonly why: string };

/** The source's clock may be off by so much. */
export const clockSkewMs = 120_000;
const listPageSize = 100;
const listPagesMost = 20;

/** Searches; rejects when the service cannot be asked now. */
export async function findCreated(work: IntakeWork, job: OpenJob): Promise<Trace> {
  // Its files are uploaded only after its id is known: a job of this dialect that was lost attaches nothing.
  if (job.kind === 'attach' && work.source.dialect === 'public')
    return job.uuid === null ? { is: 'none' } : { is: 'unclear', why: 'the service does not know the job any more' };
  const list = await readJobs(work, job);
  if (job.kind === 'attach') return traceOfAttach(job, list);
  const sinceMs = msFromTimestamp(job.created) - clockSkewMs;
  const byReference =
    job.make === 'request'
      ? await requestsByReference(work, job, sinceMs)
      : await eventsByReference(work, job, sinceMs);
  const claimed = await readClaimed(work.database, work.source.name, byReference.ids);
  const [only, ...more] = byReference.ids.filter((id) => !claimed.has(id));
  const part = job.posts === 0 ? await madeOfParts(work, job, byReference) : undefined;
  if (part !== undefined) return { is: 'unclear', why: `the service has made something of "${part}" since the backup` };
  if (more.length > 0) return { is: 'unclear', why: `the service has several with the reference "${job.reference}"` };
  if (only !== undefined) return { is: 'entity', entity: only };
  if (list === undefined) return { is: 'unclear', why: 'the service does not list its jobs' };
  // What has just been made may be missing in the feed for a while. A public service that does not keep references shows
  // events without one: such an event may be ours.
  const shown = new Set(work.source.dialect === 'public' ? byReference.references.keys() : byReference.others);
  const hidden = list.jobs.some(({ status, created_entity: entity }) =>
    status === 'COMPLETED' ? !entity || !shown.has(entity) : status !== 'FAILED',
  );
  if (hidden) return { is: 'perhaps', why: 'a job that may be this one does not show yet what it has made' };
  if (!list.complete || !byReference.complete) return { is: 'unclear', why: 'the service has too many jobs to search' };
  return { is: 'none' };
}

const missing: ReadonlySet<number> = new Set([400, 403, 404, 405, 501]);

/** Whether the service does not have what was asked for, or not for this key. A key that it does not know says nothing. */
function isMissing(error: unknown): boolean {
  return error instanceof AnswerError && error.code !== 'unauthorized' && missing.has(error.status);
}

const jobForm = z.looseObject({
  id: z.string(),
  type: z.string().optional(),
  status: z.string(),
  created: z.string().optional(),
  created_entity: z.string().nullish(),
  detail: z.looseObject({ data: z.array(z.looseObject({ file_name: z.string().optional() })).nullish() }).nullish(),
});
type ListedJob = z.output<typeof jobForm> & { readonly createdMs: number | undefined };

/** A type that is not known may be any: another service may have its own names. */
function isKnownType(type: string | undefined): boolean {
  return jobTypeNames.some((name) => name === type);
}

/** Jobs of the type since the intent that are not known here; undefined where the service does not list them. */
export async function readJobs(
  work: IntakeWork,
  job: OpenJob,
): Promise<{ jobs: ListedJob[]; complete: boolean } | undefined> {
  const { client, database, source, signal } = work;
  const type = jobTypeOf(job);
  const sinceMs = msFromTimestamp(job.created) - clockSkewMs;
  const timed = (each: z.output<typeof jobForm>): ListedJob => {
    const time = each.created === undefined ? undefined : parseTimestamp(each.created);
    return { ...each, createdMs: time === undefined ? undefined : msFromTimestamp(time) };
  };
  const jobs: ListedJob[] = [];
  let pages = 0;
  let complete = true;
  const read = (query: string) => client.readList({ path: '/api/jobs/', query, item: jobForm }, signal);
  try {
    for await (const { items } of readPages(read, queryOf({ page_number: 1, page_size: listPageSize }))) {
      pages += 1;
      const recent = items.map(timed).filter(({ createdMs }) => createdMs === undefined || createdMs >= sinceMs);
      jobs.push(...recent.filter((each) => each.type === type || !isKnownType(each.type)));
      // The newest job comes first.
      if (recent.length === 0) break;
      complete = pages < listPagesMost;
      if (!complete) break;
    }
  } catch (error) {
    if (isMissing(error) && pages === 0) return undefined;
    throw error;
  }
  const known = await knownJobs(
    database,
    source.name,
    jobs.map(({ id }) => id),
  );
  return { jobs: jobs.filter(({ id }) => !known.has(id)), complete };
}

interface ByReference {
  /** With our reference. */
  readonly ids: string[];
  /** With another one. */
  readonly others: string[];
  /** Those of them that have one, with it. */
  readonly references: ReadonlyMap<string, string>;
  readonly complete: boolean;
}

/**
 * The reference of what the lost bridge may have made of some of these requisitions, in another group; undefined if there
 * is none.
 */
async function madeOfParts(work: IntakeWork, job: OpenJob, found: ByReference): Promise<string | undefined> {
  const { members } = JSON.parse(job.madeOf) as MadeOf;
  const keys = new Set(members.map(({ erpKey }) => erpKey));
  const parts = [...found.references].filter(([, text]) => text.split(/, | and /).some((part) => keys.has(part)));
  const claimed = await readClaimed(
    work.database,
    work.source.name,
    parts.map(([id]) => id),
  );
  return parts.find(([id]) => !claimed.has(id))?.[1];
}

async function eventsByReference(work: IntakeWork, job: OpenJob, sinceMs: number): Promise<ByReference> {
  const mirrored = await work.database.query<Made & { id: string }>(
    `select record_id as id, ${bodyJson('body')} ->> 'reference_id' as reference, ${bodyJson('body')} ->> 'created' as created
     from bridge.mirror
     where source = $1 and feed = 'sourcing-events' and modified >= $2`,
    [work.source.name, timestampFromMs(sinceMs)],
  );
  const { found, complete } = await readEventsSince(work, timestampFromMs(sinceMs), work.signal);
  const all = new Map<string, Made>(mirrored.map(({ id, ...made }) => [id, made]));
  for (const { id, reference_id: reference = null, created = null } of found) all.set(id, { reference, created });
  return split(all, { job, sinceMs, complete });
}

interface Made {
  readonly reference: string | null;
  readonly created: string | null;
}

const requestForm = z.looseObject({ uuid: z.string(), reference_id: z.string().nullish(), created: z.string() });

async function requestsByReference(work: IntakeWork, job: OpenJob, sinceMs: number): Promise<ByReference> {
  const { client, signal } = work;
  const path = '/api/manage/sourcing_requests';
  const read = (query: string) => client.readList({ path, query, item: requestForm }, signal);
  const all = new Map<string, Made>();
  let pages = 0;
  try {
    const query = queryOf({ modified_after: timestampFromMs(sinceMs), page_size: listPageSize });
    for await (const { items } of readPages(read, query)) {
      for (const { uuid, reference_id: reference = null, created } of items) all.set(uuid, { reference, created });
      pages += 1;
      if (pages === listPagesMost) break;
    }
    return split(all, { job, sinceMs, complete: pages < listPagesMost });
  } catch (error) {
    // Then only the jobs tell.
    if (isMissing(error)) return { ids: [], others: [], references: new Map(), complete: true };
    throw error;
  }
}

/** One with our reference that is older than the intent is not ours: a person has made it. */
function split(
  all: ReadonlyMap<string, Made>,
  { job, sinceMs, complete }: { job: OpenJob; sinceMs: number; complete: boolean },
): ByReference {
  const isOurs = ({ reference, created }: Made) => {
    const time = created === null ? undefined : parseTimestamp(created);
    return reference === job.reference && (time === undefined || msFromTimestamp(time) >= sinceMs);
  };
  const ids = [...all].filter(([, made]) => isOurs(made)).map(([id]) => id);
  const others = [...all].filter(([, made]) => !isOurs(made));
  const references = new Map(others.flatMap(([id, { reference }]) => (reference === null ? [] : [[id, reference]])));
  return { ids, others: others.map(([id]) => id), references, complete };
}

/** A job that attaches files shows their names; another job with the same files may be a person's. */
function traceOfAttach({ payload }: OpenJob, list: { jobs: ListedJob[]; complete: boolean } | undefined): Trace {
  if (list === undefined) return { is: 'unclear', why: 'the service does not list its jobs' };
  const { files } = JSON.parse(payload) as { files: { file_name: string }[] };
  const wanted = files.map(({ file_name: name }) => name).sort(compareText);
  const pending = list.jobs.some(({ status }) => status !== 'COMPLETED' && status !== 'FAILED');
  if (pending) return { is: 'perhaps', why: 'a job that may be this one has not ended' };
  const found = list.jobs.find(({ detail }) => {
    const names = (detail?.data ?? []).map(({ file_name: name = '' }) => name).sort(compareText);
    return JSON.stringify(names) === JSON.stringify(wanted);
  });
  if (found) return { is: 'job', uuid: found.id };
  return list.complete ? { is: 'none' } : { is: 'unclear', why: 'the service has too many jobs to search' };
}
