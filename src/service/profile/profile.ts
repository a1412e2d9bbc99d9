/**
 * A profile is how the service speaks under `/api` where services of this kind differ. `spec` is the contract with our
 * decisions. `public` is what the public pages of a real service say; `public-profile.ts` has every difference.
 */
import type { z } from 'zod';
import type { feedQueriesWith } from '#contract/feed.ts';
import type { Limit, LimitName, Window } from '#contract/limits.ts';
import type { Trigger } from '#contract/webhook.ts';
import type { AppError } from '#platform/errors.ts';
import type { Endpoint } from '#platform/http/endpoint.ts';
import type { ErrorAnswer } from '#platform/http/problem.ts';
import type { Caller } from '../caller.ts';

export const profileNames = ['spec', 'public'] as const;
export type ProfileName = (typeof profileNames)[number];

export interface Profile {
  readonly name: ProfileName;
  readonly feeds: FeedForm;
  /** The organisation's endpoints as they are served. */
  readonly endpoints: (table: readonly Endpoint<Caller>[]) => Endpoint<Caller>[];
  /** The rate limits where the operator has set no others. */
  readonly limits: Readonly<Record<LimitName, Limit>>;
  /** The headers of a counted call; `headerNames` are their names. */
  readonly rateLimitHeaders: (bucket: string, windows: readonly WindowState[]) => Record<string, string>;
  readonly headerNames: readonly ('RateLimit' | 'RateLimit-Policy' | `RateLimit-${'Limit' | 'Remaining' | 'Reset'}`)[];
  /** The answers to errors; undefined: problem details. */
  readonly errors: ErrorForm | undefined;
  /** A trigger's name as webhooks are registered, shown and notified with it. */
  readonly triggerName: (trigger: Trigger) => string;
  /** Whether the notification of a feed says how new the feed is. */
  readonly sendsFeedModified: boolean;
  /** What the OpenAPI document says of these differences. */
  readonly words: { readonly errors: string; readonly limits: string };
}

/** How pages of feeds are asked for and shown. */
export interface FeedForm {
  readonly queries: ReturnType<typeof feedQueriesWith>;
  /** Whether the body has the next page's URL, beside the header `Link`; else its `next` is null. */
  readonly nextInBody: boolean;
  /** Whether the feeds declare their order. */
  readonly declaresOrder: boolean;
}

export interface NamedWindow extends Window {
  readonly name: 'burst' | 'sustained';
}

/** A window after a call was counted. */
export interface WindowState extends NamedWindow {
  readonly remaining: number;
  /** Until the oldest counted request leaves the window. */
  readonly resetSeconds: number;
}

interface ErrorForm {
  readonly answer: (error: AppError) => ErrorAnswer;
  /** The body of every answer that has one. */
  readonly schema: z.ZodType;
  readonly mediaType: string;
}
