/**
 * Makes the service misbehave as asked, so that an author of a client can test it: the feeds, and the notifications. For
 * tests only: the feeds are held in memory.
 */
import type { Express } from 'express';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { MountOptions } from '#platform/http/endpoint.ts';
import type { Caller, KeyIdentity } from '../caller.ts';
import { createFeedCopies } from './feed-copies.ts';
import { createMisbehavingFetch } from './misbehaving-fetch.ts';
import type { Misbehaviour } from './misbehaviour.ts';
import { seededFraction } from './seeded-fraction.ts';
import { serveMisbehavingFeeds } from './serve-misbehaving-feeds.ts';

export interface MisbehaveOptions {
  readonly misbehaviour: Misbehaviour;
  /** The same seed, changes and requests lead to the same answers. */
  readonly seed: string;
}

interface Deps
  extends MisbehaveOptions,
    Pick<MountOptions<KeyIdentity, Caller>, 'authenticate' | 'count' | 'publicUrl'> {
  readonly database: Database;
  readonly clock: Clock;
  readonly fetch: GuardedFetch;
}

/** Adds the routes, and returns the fetch for notifications. */
export function misbehave(app: Express, deps: Deps): ReturnType<typeof createMisbehavingFetch> {
  const copies = createFeedCopies(deps);
  serveMisbehavingFeeds(app, { ...deps, copies });
  const random = seededFraction(`${deps.seed} notifications`);
  return createMisbehavingFetch({ ...deps, random, isCalm: (organisationId) => copies.isCalm(organisationId) });
}
