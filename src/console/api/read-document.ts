/** One document: its state, its timeline, what it is now, and the versions that were sent. */
import { z } from 'zod';
import { type DocumentPlace, readDocuments } from '#bridge/ledger/attempts/document-rows.ts';
import { readVersions } from '#bridge/ledger/attempts/document-versions.ts';
import { documentNow } from '#bridge/operate/history/document-now.ts';
import { readTimeline } from '#bridge/operate/history/read-timeline.ts';
import { uuid } from '#contract/scalars.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Viewer } from '../access/viewer.ts';
import { type ConsoleApiDeps, documentPlace, readCall, requireFlow } from './console-call.ts';

const attemptsShown = 50;

const query = documentPlace.extend({ before: uuid.optional() });
const versionQuery = documentPlace.extend({ version: z.coerce.number().int().min(1) });

export type DocumentAnswer = Awaited<ReturnType<typeof read>>;
export type VersionAnswer = Awaited<ReturnType<typeof readVersion>>;

async function read(
  { database, clock, settings, urlOf }: ConsoleApiDeps,
  viewer: Viewer,
  place: DocumentPlace,
  before: string | undefined,
) {
  const document = await requireDocument({ database, clock }, viewer, place);
  const { madeOf, ...now } = await documentNow(database, settings, place);
  const versions = await readVersions(database, place);
  const timeline = await readTimeline(database, document, { limit: attemptsShown, before, madeOf });
  const url = (await urlOf(document.flow, document.reference)) ?? null;
  return {
    document: { ...document, url },
    now,
    versions: versions.map(({ document: _document, madeOf: _madeOf, ...version }) => version),
    timeline: { entries: timeline.entries.toReversed(), before: timeline.before ?? null },
    attempts: timeline.attempts.toReversed(),
  };
}

async function readVersion({ database, clock }: ConsoleApiDeps, viewer: Viewer, place: DocumentPlace, number: number) {
  await requireDocument({ database, clock }, viewer, place);
  const found = (await readVersions(database, place)).find((version) => version.number === number);
  if (!found) throw new AppError('not-found', `There is no version ${number} of this document.`);
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

export const documentCall = (deps: ConsoleApiDeps) =>
  readCall('/api/document', query, ({ viewer, query: { before, ...place } }) => read(deps, viewer, place, before));
export const versionCall = (deps: ConsoleApiDeps) =>
  readCall('/api/document/version', versionQuery, ({ viewer, query: { version, ...place } }) =>
    readVersion(deps, viewer, place, version),
  );
