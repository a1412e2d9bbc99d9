import { Fault } from './finding.ts';

/** Rejects with a Fault when `running` takes longer; it may go on then, and how it ends is of no interest. */
export async function within<T>(ms: number, what: string, lookAt: string, running: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Fault({ expected: `${what} ends within ${ms} ms`, seen: 'it has not ended', lookAt })),
    ms,
  );
  try {
    return await Promise.race([running, late]);
  } finally {
    clearTimeout(timer);
  }
}
