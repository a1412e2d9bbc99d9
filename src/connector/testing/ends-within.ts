import { CheckFailure } from './finding.ts';

/**
 * Returns the result of `running`, or rejects with CheckFailure when it takes longer than `ms`. `running` is not
 * stopped then; its end is ignored.
 */
export async function endsWithin<T>(ms: number, what: string, lookAt: string, running: Promise<T>): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new CheckFailure({ expected: `${what} ends within ${ms} ms`, seen: 'it has not ended', lookAt })),
    ms,
  );
  try {
    return await Promise.race([running, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
