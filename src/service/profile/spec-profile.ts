/** The profile `spec`: the contract with our decisions. */
import { feedQueries } from '#contract/feed.ts';
import { limits } from '#contract/limits.ts';
import { problemMediaType } from '#contract/problem.ts';
import type { Profile, WindowState } from './profile.ts';

export const specProfile: Profile = {
  name: 'spec',
  feeds: { queries: feedQueries, nextInBody: true, declaresOrder: true },
  endpoints: (table) => [...table],
  limits,
  rateLimitHeaders,
  headerNames: ['RateLimit', 'RateLimit-Policy'],
  errors: undefined,
  triggerName: (trigger) => trigger,
  sendsFeedModified: true,
  words: {
    errors: `Problem details (RFC 9457) as \`${problemMediaType}\`; \`errors\` names each wrong place, like \`bid_sheet.columns[2].precision\`.`,
    limits: '`RateLimit` says what is left, `Retry-After` how long to wait.',
  },
};

/**
 * `RateLimit-Policy` (`q`: quota, `w`: window in seconds) and `RateLimit` (`r`: requests left, `t`: seconds until the
 * oldest counted request leaves its window). Source: draft-ietf-httpapi-ratelimit-headers-10.
 */
function rateLimitHeaders(bucket: string, windows: readonly WindowState[]): Record<string, string> {
  const policies = windows.map(({ name, requests, seconds }) => `"${bucket}.${name}";q=${requests};w=${seconds}`);
  const states = windows.map((window) => `"${bucket}.${window.name}";r=${window.remaining};t=${window.resetSeconds}`);
  return { 'RateLimit-Policy': policies.join(', '), RateLimit: states.join(', ') };
}
