/**
 * The feeds as they misbehave, before the real ones: the same authentication, rate limits and parameters, and answers of
 * a copy of the organisation's own records. `/misbehave` says which quirks are in force, `/misbehave/truth` shows the
 * records as they are, and `/misbehave/calm` stops what only happens now and then, so that a client can be compared.
 */
import type { Express, Request, Response } from 'express';
import { type FeedName, type FeedQuery, feedNames, feedQueries, pageSizeDefault, pageSizeMax } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { MountOptions } from '#platform/http/endpoint.ts';
import { parseInput } from '#platform/input.ts';
import type { Caller, KeyIdentity } from '../caller.ts';
import { loadIncludes } from '../feeds/load-includes.ts';
import { findMatchingIds } from '../feeds/read-feed.ts';
import type { FeedCopies } from './feed-copies.ts';
import type { HostileAnswer } from './hostile-feed.ts';
import type { Misbehaviour } from './misbehaviour.ts';

interface Deps extends Pick<MountOptions<KeyIdentity, Caller>, 'authenticate' | 'count' | 'publicUrl'> {
  readonly database: Database;
  readonly clock: Clock;
  readonly copies: FeedCopies;
  readonly misbehaviour: Misbehaviour;
  readonly seed: string;
}

/** Adds the routes. Add them before the real feeds: the first route that matches answers. */
export function serveMisbehavingFeeds(app: Express, deps: Deps): void {
  const { copies, clock, misbehaviour, seed } = deps;
  const caller = (request: Request) => deps.authenticate(request, ['feeds']);
  for (const feed of feedNames)
    app.get(`/api/feeds/${feed}`, async (request, response) => {
      response.locals.route = `/api/feeds/${feed}`;
      await answerFeed(deps, feed, request, response);
    });
  app.get('/misbehave', async (request, response) => {
    response.json(await stateOf(await caller(request)));
  });
  app.route('/misbehave/calm').post(async (request, response) => {
    const identity = await caller(request);
    copies.setCalm(identity.organisationId, true);
    response.json(await stateOf(identity));
  });
  app.route('/misbehave/calm').delete(async (request, response) => {
    const identity = await caller(request);
    copies.setCalm(identity.organisationId, false);
    response.json(await stateOf(identity));
  });
  app.get('/misbehave/truth/:feed', async (request, response) => {
    const { organisationId } = await caller(request);
    const feed = feedNames.find((name) => name === request.params.feed);
    if (!feed) throw new AppError('not-found', 'There is no such feed.');
    await sendTruth(deps, { organisationId, feed }, request, response);
  });

  /** `waiting` is how many versions are written and not committed yet: no client can see them. */
  async function stateOf({ organisationId }: KeyIdentity) {
    const feeds: Record<string, { waiting: number }> = {};
    for (const feed of feedNames)
      feeds[feed] = { waiting: (await copies.copyOf(organisationId, feed)).waiting(clock.nowMs() * 1_000) };
    return { quirks: misbehaviour.names, seed, calm: copies.isCalm(organisationId), feeds };
  }
}

const pagingParameters = ['page_number', 'offset', 'cursor'];

async function answerFeed(deps: Deps, feed: FeedName, request: Request, response: Response): Promise<void> {
  const { copies, clock, database, publicUrl } = deps;
  const identity = await deps.authenticate(request, ['feeds']);
  const { organisationId } = identity;
  const counted = await deps.count?.(identity, { limit: 'feeds', path: `/api/feeds/${feed}` });
  for (const [name, value] of Object.entries(counted?.headers ?? {})) response.setHeader(name, value);
  if (counted?.refusal) throw counted.refusal;
  const plain = Object.entries(request.query).filter(([name]) => !pagingParameters.includes(name));
  const query: FeedQuery = parseInput(feedQueries[feed], Object.fromEntries(plain), 'The query');
  const ids = await findMatchingIds(database, organisationId, feed, query);
  const copy = await copies.copyOf(organisationId, feed);
  const url = new URL(request.originalUrl, publicUrl ?? `${request.protocol}://${request.get('host') ?? 'localhost'}`);
  const answer = copy.answer(url, clock.nowMs() * 1_000, {
    calm: copies.isCalm(organisationId),
    ...(ids && { matches: (id: string) => ids.has(id) }),
  });
  if (answer === 'cut') return cutOff(response);
  const includes =
    answer.isPage && query.include
      ? `,"includes":${await loadIncludes(database, organisationId, query.include, [answer.body])}`
      : '';
  await clock.sleep(answer.delayMs);
  send(response, includes === '' ? answer : { ...answer, body: `${answer.body.slice(0, -1)}${includes}}` });
}

function send(response: Response, { status, headers, body }: HostileAnswer): void {
  response.sendDate = headers['date'] !== undefined;
  response.status(status);
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  // Not by Express, which would add an ETag and answer 304.
  response.end(body);
}

/** Breaks the connection in the middle of an answer that would have been longer. */
function cutOff(response: Response): void {
  // Otherwise the beginning might wait in the compression.
  response.setHeader('cache-control', 'no-transform');
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1_000 });
  response.write('{"data":[{"id":"', () => response.destroy());
}

async function sendTruth(
  { copies, clock }: Deps,
  { organisationId, feed }: { organisationId: string; feed: FeedName },
  request: Request,
  response: Response,
): Promise<void> {
  const copy = await copies.copyOf(organisationId, feed);
  const query = new URLSearchParams(request.originalUrl.split('?')[1]);
  const size = Number(query.get('page_size') ?? pageSizeDefault);
  if (!Number.isInteger(size) || size < 1 || size > pageSizeMax)
    throw new AppError('invalid', `page_size must be a whole number from 1 to ${pageSizeMax}.`);
  const cursor = query.get('cursor') ?? '';
  const rest = [...copy.currents(clock.nowMs() * 1_000)]
    .filter(({ id }) => id > cursor)
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const page = rest.slice(0, size);
  const last = page.at(-1);
  const next =
    last && rest.length > size
      ? `/misbehave/truth/${feed}?${new URLSearchParams({ page_size: String(size), cursor: last.id }).toString()}`
      : null;
  const texts = page.map((version) => copy.rendered(version));
  response.type('application/json').send(`{"data":[${texts.join(',')}],"next":${JSON.stringify(next)}}`);
}
