/**
 * What the calls of the console's JSON API have in common: who asks, what they may see, how lists are paged. A handler
 * only reads its input and calls the function that the command line calls, too.
 */
import { z } from 'zod';
import type { ObjectUrls } from '#bridge/connectors/object-urls.ts';
import type { ShownCertificates } from '#bridge/operate/status/conditions.ts';
import type { BridgeStatus } from '#bridge/operate/status/status.ts';
import type { BridgeRole } from '#bridge/settings/bridge-deps.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import { documentKinds } from '#connector/documents.ts';
import { timestamp } from '#contract/scalars.ts';
import type { ActionSubject } from '#platform/audit-log.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { parseJson } from '#platform/http/body.ts';
import { type Endpoint, endpoint } from '#platform/http/endpoint.ts';
import type { Logger } from '#platform/log.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { maySeeFlow, type OwnSession, type Viewer } from '../access/viewer.ts';
import type { ownPaths } from './own-paths.ts';

/** A line of `bridge doctor`. */
export interface ConsoleFinding {
  readonly name: string;
  readonly level: 'ok' | 'warn' | 'fail';
  readonly message: string;
  readonly todo?: string;
}

export interface ConsoleDeps {
  readonly settings: BridgeSettings;
  /** Every text that a variable of the environment has given: the page of the settings hides it. */
  readonly fromEnvironment: readonly string[];
  readonly role?: BridgeRole;
  readonly database: Database;
  /** The same database over the connections of `openReading`. */
  readonly reading: Database;
  readonly clock: Clock;
  readonly log: Logger;
  readonly dataDir: string;
  readonly fetch: GuardedFetch;
  readonly secrets: SecretBox;
  readonly clientOf: (source: string) => SourceClient;
  /** The certificates that this process shows: what is wrong with them is a condition. */
  readonly certificates?: (() => ShownCertificates) | undefined;
  readonly doctor?: (() => Promise<readonly ConsoleFinding[]>) | undefined;
}

/** What handlers use: shared by all viewers of a process. */
export interface ConsoleApiDeps extends ConsoleDeps {
  /** Notes in the audit log what an operator is about to do: before it is done, or it is not done. */
  readonly note: (caller: ConsoleCaller, subject: ActionSubject) => Promise<void>;
  readonly status: () => Promise<BridgeStatus>;
  readonly urlOf: ObjectUrls;
}

/** Who asks, and from where. */
export interface ConsoleCaller extends Viewer {
  readonly from: string | null;
  /** Where a session of the console lets the person in. */
  readonly session?: OwnSession;
  /** Aborts when the person does not wait for the answer any more. */
  readonly left?: AbortSignal;
  /** What was noted for this request: should it fail, that is noted, too. */
  readonly noted: ActionSubject[];
}

export type ConsoleEndpoint = Endpoint<ConsoleCaller>;

/** A call that only reads. */
export function readCall<Query extends z.ZodType>(
  path: string,
  query: Query,
  handle: (call: { viewer: ConsoleCaller; query: z.output<Query> }) => Promise<unknown>,
): ConsoleEndpoint {
  return endpoint<ConsoleCaller, z.ZodUndefined, Query>({
    method: 'GET',
    path,
    scope: 'viewer',
    query,
    handle: async ({ caller, query: read }) => ({
      status: 200,
      body: await handle({ viewer: caller, query: read }),
      headers: { 'Cache-Control': 'no-store' },
    }),
  });
}

/** A call that changes something: for operators. */
export function actionCall<Body extends z.ZodType>(
  path: string,
  body: Body,
  handle: (call: { viewer: ConsoleCaller; body: z.output<Body> }) => Promise<unknown>,
): ConsoleEndpoint {
  return postCall('operator', path, body, handle);
}

/** A call that changes what is the person's own: for every role. */
export function ownCall<Body extends z.ZodType>(
  path: `${typeof ownPaths}${string}`,
  body: Body,
  handle: (call: { viewer: ConsoleCaller; body: z.output<Body> }) => Promise<unknown>,
): ConsoleEndpoint {
  return postCall('viewer', path, body, handle);
}

function postCall<Body extends z.ZodType>(
  scope: 'operator' | 'viewer',
  path: string,
  body: Body,
  handle: (call: { viewer: ConsoleCaller; body: z.output<Body> }) => Promise<unknown>,
): ConsoleEndpoint {
  return endpoint<ConsoleCaller, Body>({
    method: 'POST',
    path,
    scope,
    body,
    handle: async ({ caller, body: read }) => ({
      status: 200,
      body: (await handle({ viewer: caller, body: read })) ?? {},
      headers: { 'Cache-Control': 'no-store' },
    }),
  });
}

export const noQuery = z.strictObject({});
export const flowName = z.string().min(1).max(100);
export const documentKind = z.enum(documentKinds);
export const documentPlace = z.strictObject({ flow: flowName, kind: documentKind, key: z.string().min(1).max(2_000) });
export const searchText = z.string().trim().min(1).max(500).optional();
export const oneOrMore = <Item extends z.ZodType>(item: Item) =>
  z.union([z.array(item), item.transform((one) => [one])]).optional();

/** Pages have a hundred rows: more than fit a screen, and few enough to be drawn at once. */
export const pageRows = 100;

/** The place where a page begins, as the answer before it has given it in `next`. */
export function pagePlace<Place extends z.ZodType>(place: Place) {
  return z
    .string()
    .max(4_000)
    .transform((text, context) => {
      try {
        return place.parse(parseJson(Buffer.from(text, 'base64url')));
      } catch {
        context.addIssue({ code: 'custom', message: 'must be the "next" of another page' });
        return z.NEVER;
      }
    })
    .optional();
}

export function nextOf(place: object | undefined, hasMore: boolean): string | null {
  return hasMore && place ? Buffer.from(JSON.stringify(place)).toString('base64url') : null;
}

export const documentListPlace = z.object({
  changed: timestamp,
  flow: z.string(),
  kind: documentKind,
  key: z.string(),
});

/** The flows that the viewer may see, among those that were asked for; undefined: all. */
export function flowsFor(viewer: Viewer, asked: readonly string[] | undefined): readonly string[] | undefined {
  if (asked === undefined) return viewer.flows === 'all' ? undefined : viewer.flows;
  return asked.filter((flow) => maySeeFlow(viewer, flow));
}

/** The sources of the flows that the viewer may see. */
export function sourcesFor(viewer: Viewer, { sources, flows }: BridgeSettings): string[] {
  return sources
    .map(({ name }) => name)
    .filter(
      (source) =>
        viewer.flows === 'all' || flows.some((flow) => flow.source === source && maySeeFlow(viewer, flow.name)),
    );
}

/** Throws AppError `not-found` for a flow that the viewer may not see: its existence is not revealed. */
export function requireFlow(viewer: Viewer, flow: string): string {
  if (!maySeeFlow(viewer, flow)) throw new AppError('not-found', `There is no flow "${flow}" that you may see.`);
  return flow;
}

/** For what concerns a whole source, or the whole bridge. Throws AppError `forbidden` for a viewer of some flows. */
export function requireAllFlows(viewer: Viewer): void {
  if (viewer.flows !== 'all')
    throw new AppError('forbidden', 'This concerns every flow, and your account is for some flows only.');
}
