/**
 * Slows the guessing of tokens down and makes it seen. Of one address at most 60 wrong tokens a second are checked and
 * answered 401; the rest get 429. Many callers may share an address, so the failures of others never lock a right key
 * out: a key that was right before is looked up as always, and the keys beyond the 60 are looked up together, all that
 * have come meanwhile in one query. That finds a right key among them, and costs the same for ten wrong ones and a
 * thousand. A burst of refusals is one line of the log.
 */
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import { addressGroup } from '#platform/network-guard.ts';

/** How tokens of one kind are found, by the hashes of them. */
export interface TokenKind<Found> {
  /** The label of the metric. */
  readonly by: string;
  /** In the order of the hashes. */
  readonly findAll: (hashes: readonly Buffer[]) => Promise<readonly (Found | undefined)[]>;
  readonly unauthorized: () => AppError;
}

export interface TokenGuard {
  /** Returns what a kind of tokens finds. The check throws `unauthorized` for a wrong token, and `too-many`. */
  protect<Found>(kind: TokenKind<Found>): (address: string | undefined, hash: Buffer) => Promise<Found>;
  /** Writes the line of a burst that has not ended. */
  close(): Promise<void>;
}

/** How many wrong tokens of one address are checked in a second, unless a setting says otherwise. */
export const wrongTokensDefault = 60;

const windowMs = 1_000;
/** More addresses than this are not remembered: the one that came first is forgotten. */
const addressesMax = 10_000;
const knownMax = 10_000;
/** Tokens that are looked up in one query, and that may wait for it. */
const togetherMax = 1_000;

export function createTokenGuard({
  metric,
  wrongPerSecond,
  clock,
  log,
  registry,
  onRefused,
}: {
  metric: 'service_tokens_refused_total';
  /** Of one address. */
  wrongPerSecond: number;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** Called with the kind of each wrong token, and the address as it was given. It must return at once. */
  onRefused?: (by: string, address: string | undefined) => void;
}): TokenGuard {
  const refused = new Counter({
    name: metric,
    help: 'Requests refused for a wrong token, by its kind and the answer (unauthorized, too_many)',
    labelNames: ['by', 'answer'],
    registers: [registry],
  });
  const burst = createBurstLog(log, clock);
  /** When tokens of an address were checked and not found to be right, in the last second. */
  const checked = new Map<string, number[]>();
  const known = new Set<string>();

  /** Counts a check; false when the address has had all of this second. */
  function countCheck(address: string): boolean {
    const nowMs = clock.nowMs();
    // A clock that was set back forgets what it has counted.
    const recent = (checked.get(address) ?? []).filter((atMs) => atMs <= nowMs && nowMs - atMs < windowMs);
    const isFree = recent.length < wrongPerSecond;
    if (isFree) recent.push(nowMs);
    checked.delete(address);
    checked.set(address, recent);
    forgetFirst(checked, addressesMax);
    return isFree;
  }

  function noteRefusal(by: string, address: string, isChecked: boolean): void {
    refused.inc({ by, answer: isChecked ? 'unauthorized' : 'too_many' });
    burst.add(address);
  }

  function remember(token: string): void {
    known.delete(token);
    known.add(token);
    forgetFirst(known, knownMax);
  }

  return {
    protect: ({ by, findAll, unauthorized }) => {
      const find = async (hash: Buffer) => (await findAll([hash]))[0];
      const findTogether = createSharedSearch(findAll);
      return async (given, hash) => {
        const token = hash.toString('base64');
        if (known.has(token)) {
          const found = await find(hash);
          if (found !== undefined) return found;
          known.delete(token);
        }
        const address = addressGroup(given) ?? 'unknown';
        const isChecked = countCheck(address);
        const found = await (isChecked ? find(hash) : findTogether(hash));
        if (found !== undefined) {
          if (isChecked) checked.get(address)?.pop();
          remember(token);
          return found;
        }
        noteRefusal(by, address, isChecked);
        onRefused?.(by, given);
        throw isChecked ? unauthorized() : tooMany();
      };
    },
    close: () => burst.close(),
  };
}

function tooMany(): AppError {
  return new AppError(
    'too-many',
    'Too many wrong tokens have come from your address. Wait a second, and check yours.',
    {
      recovery: { do: 'retry', afterMs: windowMs },
    },
  );
}

function forgetFirst(entries: Map<string, unknown> | Set<string>, most: number): void {
  const [first] = entries.keys();
  if (entries.size > most && first !== undefined) entries.delete(first);
}

/** One search at a time: the hashes that come while it runs share the next one. More than it takes are not found. */
function createSharedSearch<Found>(findAll: TokenKind<Found>['findAll']) {
  let waiting: Buffer[] = [];
  let next: Promise<readonly (Found | undefined)[]> | undefined;
  let running: Promise<unknown> = Promise.resolve();

  async function search(after: Promise<unknown>): Promise<readonly (Found | undefined)[]> {
    await after.catch(() => undefined);
    const hashes = waiting;
    waiting = [];
    next = undefined;
    return findAll(hashes);
  }

  return async (hash: Buffer): Promise<Found | undefined> => {
    if (waiting.length >= togetherMax) return undefined;
    const place = waiting.push(hash) - 1;
    running = next ??= search(running);
    return (await next)[place];
  };
}

/** A burst ends when nothing was refused for so long, and is written at the latest after `burstMs`. */
const quietMs = 2_000;
const burstMs = 60_000;
/** Fewer refusals are a mistake of a caller, which the metric shows. */
const burstMin = 10;
const addressesShown = 5;

/** Writes one line for a burst of refusals: how many there were, and from where. */
function createBurstLog(log: Logger, clock: Clock) {
  const closing = new AbortController();
  const counts = new Map<string, number>();
  let total = 0;
  let running: Promise<void> | undefined;

  async function watch(): Promise<void> {
    const startedMs = clock.nowMs();
    let before = 0;
    while (total > before && clock.nowMs() - startedMs < burstMs && !closing.signal.aborted) {
      before = total;
      await clock.sleep(quietMs, closing.signal).catch(() => undefined);
    }
    write((clock.nowMs() - startedMs) / 1_000);
    counts.clear();
    total = 0;
    running = undefined;
  }

  function write(seconds: number): void {
    const [...from] = counts;
    const shown = from.sort(([, a], [, b]) => b - a).slice(0, addressesShown);
    const others = from.length > shown.length ? ` and ${from.length - shown.length} others` : '';
    const places = shown.map(([address, count]) => `${address} (${count})`).join(', ');
    log[total < burstMin ? 'debug' : 'warn'](
      { refused: total, addresses: Object.fromEntries(shown), seconds: Math.round(seconds) },
      `wrong tokens were refused: ${total}, from ${places}${others}`,
    );
  }

  return {
    add: (address: string): void => {
      total += 1;
      if (counts.has(address) || counts.size < addressesMax) counts.set(address, (counts.get(address) ?? 0) + 1);
      running ??= watch();
    },
    close: async (): Promise<void> => {
      closing.abort();
      await running;
    },
  };
}
