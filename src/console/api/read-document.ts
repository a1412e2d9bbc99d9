/** One document: its state, its timeline, what it is now, and the versions that were sent. */
import { z } from 'zod';
import { type DocumentPlace, readDocuments } from '#bridge/ledger/attempts/document-rows.ts';
import { readVersions } from '#bridge/ledger/attempts/document-versions.ts';
import { documentNow } from '#bridge/operate/history/document-now.ts';
import { readTimeline } from '#bridge/operate/history/read-timeline.ts';
import type { Document } from '#connector/documents.ts';
import { uuid } from '#contract/scalars.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Viewer } from '../access/viewer.ts';
import { type ConsoleApiDeps, type ConsoleCaller, documentPlace, readCall, requireFlow } from './console-call.ts';

const attemptsShown = 50;
const notedAgainMs = 3_600_000;
const notedMax = 10_000;

const query = documentPlace.extend({ before: uuid.optional() });
const versionQuery = documentPlace.extend({ version: z.coerce.number().int().min(1) });

export type DocumentAnswer = Awaited<ReturnType<typeof read>>;
export type VersionAnswer = Awaited<ReturnType<typeof readVersion>>;

async function read(
  { database, clock, settings, urlOf }: ConsoleApiDeps,
  noteRead: NoteRead,
  viewer: ConsoleCaller,
  { before, ...place }: DocumentPlace & { before?: string | undefined },
) {
  const document = await requireDocument({ database, clock }, viewer, place);
  const { madeOf, ...now } = await documentNow(database, settings, place);
  const versions = await readVersions(database, place);
  const timeline = await readTimeline(database, document, { limit: attemptsShown, before, madeOf });
  if (namesPeople(now.document)) await noteRead(viewer, place);
  const url = (await urlOf(document.flow, document.reference)) ?? null;
  return {
    document: { ...document, url },
    now,
    versions: versions.map(({ document: _document, madeOf: _madeOf, ...version }) => version),
    timeline: { entries: timeline.entries.toReversed(), before: timeline.before ?? null },
  };
}

type NoteRead = (viewer: ConsoleCaller, place: DocumentPlace) => Promise<void>;

/** Whether it has names and addresses of persons. */
function namesPeople(document: Document | undefined): boolean {
  if (document?.kind === 'supplier') return document.contacts.length > 0;
  return document?.kind === 'sourcing-event' && document.contact !== undefined;
}

/** Notes in the audit log who has read of persons: once an hour, as a page that is open asks again and again. */
function createReadNoter({ note, clock }: ConsoleApiDeps): NoteRead {
  const noted = new Map<string, number>();
  return async (viewer, { flow, kind, key }) => {
    const what = JSON.stringify([viewer.name, flow, kind, key]);
    const nowMs = clock.nowMs();
    if (nowMs - (noted.get(what) ?? Number.NEGATIVE_INFINITY) < notedAgainMs) return;
    await note(viewer, { what: 'personal-data.read', object: `flow ${flow}`, details: { kind, key } });
    if (noted.size >= notedMax) noted.clear();
    noted.set(what, nowMs);
  };
}

async function readVersion(
  { database, clock }: ConsoleApiDeps,
  noteRead: NoteRead,
  viewer: ConsoleCaller,
  { version: number, ...place }: DocumentPlace & { version: number },
) {
  await requireDocument({ database, clock }, viewer, place);
  const found = (await readVersions(database, place)).find((version) => version.number === number);
  if (!found) throw new AppError('not-found', `There is no version ${number} of this document.`);
  if (namesPeople(found.document as Document | undefined)) await noteRead(viewer, place);
  return { number, document: found.document };
}

async function requireDocument(
  { database, clock }: Pick<ConsoleApiDeps, 'database' | 'clock'>,
  viewer: Viewer,
  { flow, kind, key }: DocumentPlace,
) {
  const [document] = await readDocuments(
    database,
    { condition: 'd.flow = $1 and d.kind = $2 and d.key = $3', params: [requireFlow(viewer, flow), kind, key] },
    { now: timestampNow(clock), limit: 1 },
  );
  if (document) return document;
  throw new AppError('not-found', `The flow ${flow} has no ${kind} document with the key ${key}.`);
}

export const documentCall = (deps: ConsoleApiDeps) => {
  const noteRead = createReadNoter(deps);
  return readCall('/api/document', query, ({ viewer, query: asked }) => read(deps, noteRead, viewer, asked));
};
export const versionCall = (deps: ConsoleApiDeps) => {
  const noteRead = createReadNoter(deps);
  return readCall('/api/document/version', versionQuery, ({ viewer, query: asked }) =>
    readVersion(deps, noteRead, viewer, asked),
  );
};
