/**
 * A connector for tests that stop a process in the middle of a call: each write begins, waits until a file exists, and
 * adds an object then. As the interface asks for, it looks at the signal before it sends anything.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as slowly } from 'node:timers/promises';
import { defineConnector, type Outcome } from 'sourcing-bridge/connector';
import { z } from 'zod';

const step = z.object({ step: z.enum(['begin', 'write', 'stop']), key: z.string(), hash: z.string(), pid: z.number() });

/** What was done, in order; `write` made an object. */
export function readSteps(file: string): z.infer<typeof step>[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => step.parse(JSON.parse(line)));
}

const settings = z.strictObject({ file: z.string(), gate: z.string() });
const lookEveryMs = 10;

/** @public The bridge loads it by its path. */
// oxlint-disable-next-line import/no-default-export
export default defineConnector({
  name: 'gated',
  settings,
  capabilities: { kinds: ['award'], batchMax: 5, timeoutMs: 3_000, lateEffectMs: 0, idempotency: 'lookup' },
  async open({ file, gate }, { dataDir }) {
    const path = resolve(dataDir, file);
    const tell = (what: string, key: string, hash: string) =>
      appendFileSync(path, `${JSON.stringify({ step: what, key, hash, pid: process.pid })}\n`);
    return {
      check: async () => [],
      write: async (operations, signal) => {
        const outcomes: Outcome[] = [];
        for (const { document, contentHash } of operations) {
          tell('begin', document.key, contentHash);
          try {
            while (!existsSync(resolve(dataDir, gate))) {
              signal.throwIfAborted();
              await slowly(lookEveryMs);
            }
            signal.throwIfAborted();
          } catch (error) {
            tell('stop', document.key, contentHash);
            throw error;
          }
          tell('write', document.key, contentHash);
          outcomes.push({ status: 'created', reference: document.key });
        }
        return outcomes;
      },
      lookup: async (documents) => {
        const written = new Map(
          readSteps(path).flatMap((one) => (one.step === 'write' ? [[one.key, one.hash] as const] : [])),
        );
        return documents.flatMap(({ key }) => {
          const contentHash = written.get(key);
          return contentHash === undefined ? [] : [{ key, reference: key, contentHash }];
        });
      },
      close: async () => undefined,
    };
  },
});
