/**
 * A connector for tests that stop a process in the middle of a call: each write begins, waits until a file exists, and
 * then adds an object. As the interface requires, it checks the signal before it sends anything.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as slowly } from 'node:timers/promises';
import { defineConnector, type Outcome } from 'sourcing-bridge/connector';
import { z } from 'zod';

const step = z.object({ step: z.enum(['begin', 'write', 'stop']), key: z.string(), hash: z.string(), pid: z.number() });

/** The steps of all writes, in order; `write` is the step that makes the object. */
export function readSteps(file: string): z.infer<typeof step>[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => step.parse(JSON.parse(line)));
}

const settings = z.strictObject({
  file: z.string(),
  gate: z.string(),
  timeout_ms: z.int().default(3_000),
  late_effect_ms: z.int().default(0),
});
const pollMs = 10;

/** @public The bridge loads it by its path. */
// oxlint-disable-next-line import/no-default-export
export default defineConnector({
  name: 'gated',
  settings,
  capabilities: { kinds: ['award'], batchMax: 5, timeoutMs: 3_000, lateEffectMs: 0, idempotency: 'lookup' },
  capabilitiesWith: ({ timeout_ms, late_effect_ms }) => ({ timeoutMs: timeout_ms, lateEffectMs: late_effect_ms }),
  async open({ file, gate }, { dataDir }) {
    const path = resolve(dataDir, file);
    const note = (name: string, key: string, hash: string) =>
      appendFileSync(path, `${JSON.stringify({ step: name, key, hash, pid: process.pid })}\n`);
    return {
      check: async () => [],
      write: async (operations, signal) => {
        const outcomes: Outcome[] = [];
        for (const { document, contentHash } of operations) {
          note('begin', document.key, contentHash);
          try {
            while (!existsSync(resolve(dataDir, gate))) {
              signal.throwIfAborted();
              await slowly(pollMs);
            }
            signal.throwIfAborted();
          } catch (error) {
            note('stop', document.key, contentHash);
            throw error;
          }
          note('write', document.key, contentHash);
          outcomes.push({ status: 'created', reference: document.key });
        }
        return outcomes;
      },
      lookup: async (documents) => {
        const written = new Map(
          readSteps(path).flatMap(({ step, key, hash }) => (step === 'write' ? [[key, hash] as const] : [])),
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
