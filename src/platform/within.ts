import { AppError } from './errors.ts';

/** Rejects with AppError `unavailable` when `promise` has not settled after `ms`; a later result is ignored. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const late = new AppError('unavailable', `There was no answer within ${ms / 1_000} s.`);
  const timer = setTimeout(() => reject(late), ms);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
