/** What the doctor says of a Redis that cannot carry wake-ups, at real servers of each kind. */
import { describe, expect, test } from 'vitest';
import { findQueue } from '#cli/doctor/queue-findings.ts';
import { hasRedisServer } from '../harness/redis.ts';
import { startRedisWith, unusableKindNames, unusableKinds } from '../harness/redis-kinds.ts';

describe.runIf(hasRedisServer())('REDIS_URL', () => {
  test.each(unusableKindNames)('of %s is named, with the cure and with what goes on meanwhile', async (kind) => {
    expect(await findQueue(await startRedisWith(unusableKinds[kind]))).toMatchObject([
      {
        level: 'fail',
        message: `REDIS_URL names ${kind}`,
        todo: expect.stringMatching(
          /^Set REDIS_URL to .*, or leave it out: .* each process works what its sweep finds/,
        ),
      },
    ]);
  });

  test('of a Redis that stands alone is fine', async () => {
    const url = await startRedisWith({ mode: [], lines: ['save ""', 'maxmemory-policy noeviction'] });
    expect((await findQueue(url)).map(({ level }) => level)).toEqual(['ok', 'ok']);
  });
});
