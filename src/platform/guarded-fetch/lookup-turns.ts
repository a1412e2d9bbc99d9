/**
 * Name lookups in turns. The system's resolver works on very few names at once for the whole process (with libuv's four
 * threads on two). A name whose name servers never answer keeps it for ten seconds and more, and nothing can call it
 * back. So a group has one lookup under way at a time: names that one group has made up delay the names of another by
 * one lookup, not by all of them. A lookup whose turn does not come in time is never begun.
 *
 * Example: A has 40 webhooks whose names no server answers for, and B has one webhook. A keeps one of the two places of
 * the resolver, and B uses the other.
 */
import { createFairSlots } from '../fair-slots.ts';
import type { ResolveHost } from './guarded-lookup.ts';

/** No request waits longer than this for its connection. */
const turnWithinMs = 10_000;

/** Returns how a group resolves names. Without a group each name takes turns with itself only. */
export function createLookupTurns(resolveHost: ResolveHost): (group: string | undefined) => ResolveHost {
  const turns = createFairSlots({ slots: Number.POSITIVE_INFINITY, slotsEach: 1 });
  /** Connections that are made at once to one host share a lookup. */
  const pending = new Map<string, ReturnType<ResolveHost>>();

  async function resolveInTurn(name: string, hostname: string): ReturnType<ResolveHost> {
    const end = await turns.enter(name, { signal: AbortSignal.timeout(turnWithinMs) }).catch((cause: unknown) => {
      throw new Error('other names are still being resolved', { cause });
    });
    try {
      return await resolveHost(hostname);
    } finally {
      end();
    }
  }

  return (group) => (hostname) => {
    const key = `${group ?? ''} ${hostname}`;
    const known = pending.get(key);
    if (known) return known;
    const lookup = resolveInTurn(group ?? key, hostname).finally(() => pending.delete(key));
    pending.set(key, lookup);
    return lookup;
  };
}
