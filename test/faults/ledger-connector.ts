/**
 * A connector for fault tests, to the least forgiving ERP that is possible: every call adds an object, no repetition is
 * recognised, and the answer comes some time after the object exists. A document that is written twice shows as two
 * objects.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as slowly } from 'node:timers/promises';
import { defineConnector, type Outcome } from 'sourcing-bridge/connector';
import { z } from 'zod';
import type { Awards } from './awards-in-sql.ts';

/** One call that the ERP carried out. */
export const ledgerEntry = z.object({
  action: z.enum(['create', 'amend', 'cancel']),
  key: z.string(),
  contentHash: z.string(),
  lines: z.array(z.string()),
});

/** Every call that took effect, in order. */
export function readLedger(file: string): z.infer<typeof ledgerEntry>[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => ledgerEntry.parse(JSON.parse(line)));
}

export interface LedgerState {
  /** The lines of each award that the ERP holds. */
  readonly held: Awards;
  /** Calls that created an existing object, changed or cancelled a missing one, or wrote the same content again. */
  readonly doubled: readonly string[];
}

/** The objects that the ERP holds after all calls, and the calls that should not have been made. */
export function replayLedger(file: string): LedgerState {
  const held = new Map<string, { contentHash: string; lines: string[] }>();
  const doubled: string[] = [];
  for (const { action, key, contentHash, lines } of readLedger(file)) {
    const before = held.get(key);
    const repeats = action !== 'cancel' && before?.contentHash === contentHash;
    if (repeats || (action === 'create') === (before !== undefined)) doubled.push(`${action} ${key}`);
    if (action === 'cancel') held.delete(key);
    else held.set(key, { contentHash, lines });
  }
  return { held: Object.fromEntries([...held].map(([key, { lines }]) => [key, lines])), doubled };
}

const settings = z.strictObject({ file: z.string() });
const answerAfterMs = 15;

/** @public The bridge loads it by its path. */
// oxlint-disable-next-line import/no-default-export
export default defineConnector({
  name: 'ledger',
  settings,
  capabilities: { kinds: ['award'], batchMax: 3, timeoutMs: 10_000, lateEffectMs: 0, idempotency: 'lookup' },
  async open({ file }, { dataDir }) {
    const path = resolve(dataDir, file);
    return {
      check: async () => [],
      write: async (operations) => {
        const outcomes: Outcome[] = [];
        for (const { action, document, contentHash } of operations) {
          const lines = document.lines.map(({ lot, share, cost }) => `${lot} ${share} ${cost}`).sort();
          await slowly(answerAfterMs);
          appendFileSync(path, `${JSON.stringify({ action, key: document.key, contentHash, lines })}\n`);
          await slowly(answerAfterMs);
          const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
          outcomes.push({ status: done[action], reference: document.key });
        }
        return outcomes;
      },
      lookup: async (documents) => {
        const held = new Map(readLedger(path).map((entry) => [entry.key, entry]));
        return documents.flatMap(({ key }) => {
          const entry = held.get(key);
          if (!entry || entry.action === 'cancel') return [];
          return [{ key, reference: key, contentHash: entry.contentHash }];
        });
      },
      close: async () => undefined,
    };
  },
});
