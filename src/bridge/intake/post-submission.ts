/**
 * The POST of a submission or a job, and what its end says: whether the source has it, certainly has not, or may have it. Only
 * the first two may be acted upon; after the third the source is asked before anything is sent again.
 */
import { z } from 'zod';
import { AnswerError } from '#client/read-answer.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import { FetchError } from '#platform/guarded-fetch.ts';
import type { IntakeDeps } from './intake-deps.ts';

export const submissionsPath = '/api/manage/supplier_changes';

export type Posted =
  | { readonly is: 'taken'; readonly uuid: string }
  /** It did not take effect. `pause`: nothing will work until a person acts. */
  | { readonly is: 'not-taken'; readonly why: string; readonly waitMs: number; readonly pause?: 'auth' | 'config' }
  /** The source has a limit that is spent; it did not take effect. */
  | { readonly is: 'limited'; readonly why: string; readonly waitMs: number }
  /** The source refuses the submission as a whole, because of what is in it. */
  | { readonly is: 'refused'; readonly why: string }
  | { readonly is: 'uncertain'; readonly why: string };

const receiptForm = z.looseObject({ result: z.looseObject({ uuid: z.string().min(1).max(200) }) });

/** Sends the submission once. Never rejects. */
export async function postSubmission(
  client: IntakeDeps['client'],
  changes: readonly SupplierChange[],
  idempotencyKey: string,
  signal: AbortSignal,
): Promise<Posted> {
  const body = { change_data: { suppliers: changes } };
  return postOnce(async () => {
    const request = { method: 'POST', path: submissionsPath, body, idempotencyKey, once: true };
    return (await client.call(request, receiptForm, signal)).result.uuid;
  });
}

/** Calls `post`, which sends once and returns the service's id of what it has taken. Never rejects. */
export async function postOnce(post: () => Promise<string>): Promise<Posted> {
  try {
    return { is: 'taken', uuid: await post() };
  } catch (error) {
    return postedOf(error);
  }
}

const contentStatuses: ReadonlySet<number> = new Set([400, 413, 422]);
/** 408 and 409 may concern an earlier POST of the same submission. */
const uncertainStatuses: ReadonlySet<number> = new Set([408, 409]);

function postedOf(error: unknown): Posted {
  const why = errorText(error);
  if (error instanceof AppError && error.code === 'too-many')
    return { is: 'limited', why, waitMs: Math.max(1_000, askedToWaitMs(error)) };
  if (error instanceof AnswerError && error.status < 500 && !uncertainStatuses.has(error.status)) {
    if (contentStatuses.has(error.status)) return { is: 'refused', why };
    const pause = error.status === 401 || error.status === 403 ? 'auth' : 'config';
    return { is: 'not-taken', why, waitMs: 0, pause };
  }
  if (error instanceof FetchError && !error.sent) return { is: 'not-taken', why, waitMs: 0 };
  // Also an answer 2xx without the id: its list of what it has taken will show it.
  return { is: 'uncertain', why };
}
