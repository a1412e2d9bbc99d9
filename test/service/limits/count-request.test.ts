/** The sliding window against a simple model: count the requests that passed in the window that ends now. */
import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRequestCounter } from '#service/limits/count-request.ts';
import { specProfile } from '#service/profile/spec-profile.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createTestDatabase } from '../../harness/test-database.ts';

const { database } = await createTestDatabase();
// The windows of `suppliers` in the contract's table: 60 s and 3,600 s.
const windows = [60_000, 3_600_000];

const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ wait: fc.constantFrom(0, 1, 999, 1_000, 20_000, 59_999, 60_000, 1_200_000) }) },
    {
      weight: 1,
      arbitrary: fc.record({ quotas: fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 8 })) }),
    },
  ),
  { maxLength: 40 },
);

test('passes the requests that the model passes, with the same remaining quota and the same wait', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const clock = createManualClock();
      const count = createRequestCounter({ database, profile: specProfile, clock });
      const apiKeyId = randomUUID();
      const passed: number[] = [];
      let quotas = [3, 5];
      for (const step of script) {
        if ('quotas' in step) {
          quotas = step.quotas;
          continue;
        }
        clock.advance(step.wait);
        const now = clock.nowMs();
        const within = (at: number) =>
          windows.map((ms) => passed.filter((time) => time > at - ms && time <= at).length);
        const passes = within(now).every((used, index) => used < (quotas[index] ?? 0));
        const answer = await count(
          {
            apiKeyId,
            limits: { suppliers: { burst: quotas[0] ?? 0, sustained: quotas[1] ?? 0 } },
          },
          { limit: 'suppliers', path: '/api/manage/suppliers' },
        );
        expect(answer.refusal === undefined).toBe(passes);
        if (passes) passed.push(now);
        const remaining = within(now).map((used, index) => Math.max(0, (quotas[index] ?? 0) - used));
        expect([...(answer.headers['RateLimit'] ?? '').matchAll(/r=(\d+)/g)].map(([, left]) => Number(left))).toEqual(
          remaining,
        );
        if (passes) continue;
        // The first moment at which the request would pass: counted requests leave a window exactly after its length.
        const moments = passed.flatMap((time) => windows.map((ms) => time + ms)).filter((at) => at > now);
        const first = moments
          .toSorted((a, b) => a - b)
          .find((at) => within(at).every((used, i) => used < (quotas[i] ?? 0)));
        expect(answer.refusal?.recovery).toEqual({ do: 'retry', afterMs: (first ?? Number.NaN) - now });
      }
    }),
    { numRuns: 60 },
  );
});

test('a clock that was set back, or is behind in another process, frees no quota', async () => {
  const apiKeyId = randomUUID();
  const caller = { organisationId: randomUUID(), apiKeyId, limits: { suppliers: { burst: 2, sustained: 100 } } };
  const call = { limit: 'suppliers', path: '/api/manage/suppliers' } as const;
  const start = Date.UTC(2030, 0, 1);
  const [ahead, behind] = [start + 50_000, start].map((ms) =>
    createRequestCounter({ database, profile: specProfile, clock: createManualClock(ms) }),
  );
  expect((await ahead?.(caller, call))?.refusal).toBeUndefined();
  expect((await behind?.(caller, call))?.refusal).toBeUndefined();
  expect((await behind?.(caller, call))?.refusal).toBeDefined();
  expect((await ahead?.(caller, call))?.refusal?.recovery).toEqual({ do: 'retry', afterMs: 60_000 });
});

test('a clock that was far ahead and was corrected refuses for one window at most, and frees no quota', async () => {
  const caller = {
    organisationId: randomUUID(),
    apiKeyId: randomUUID(),
    limits: { suppliers: { burst: 2, sustained: 100 } },
  };
  const call = { limit: 'suppliers', path: '/api/manage/suppliers' } as const;
  const start = Date.UTC(2030, 0, 1);
  const wrong = createRequestCounter({
    database,
    profile: specProfile,
    clock: createManualClock(start + 24 * 3_600_000),
  });
  for (const _ of [1, 2]) expect((await wrong(caller, call)).refusal).toBeUndefined();
  const clock = createManualClock(start);
  const right = createRequestCounter({ database, profile: specProfile, clock });
  expect((await right(caller, call)).refusal?.recovery).toEqual({ do: 'retry', afterMs: 60_000 });
  clock.advance(60_000);
  for (const _ of [1, 2]) expect((await right(caller, call)).refusal).toBeUndefined();
  expect((await right(caller, call)).refusal?.recovery).toEqual({ do: 'retry', afterMs: 60_000 });
});

test('many requests at once on several connections use exactly the quota', async () => {
  const count = createRequestCounter({ database, profile: specProfile, clock: createManualClock() });
  const caller = {
    organisationId: randomUUID(),
    apiKeyId: randomUUID(),
    limits: { suppliers: { burst: 25, sustained: 100 } },
  };
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => count(caller, { limit: 'suppliers', path: '/api/manage/suppliers' })),
  );
  expect(answers.filter(({ refusal }) => refusal === undefined)).toHaveLength(25);
});
