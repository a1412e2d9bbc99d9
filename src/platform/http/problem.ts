/** One table from error codes to HTTP, and RFC 9457 bodies made from errors. */
import type { Response } from 'express';
import { type Problem, problemMediaType } from '#contract/problem.ts';
import { AppError, type ErrorCode } from '../errors.ts';

const answers: Record<ErrorCode, { status: number; title: string }> = {
  invalid: { status: 400, title: 'Bad request' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  forbidden: { status: 403, title: 'Forbidden' },
  'not-found': { status: 404, title: 'Not found' },
  'method-not-allowed': { status: 405, title: 'Method not allowed' },
  conflict: { status: 409, title: 'Conflict' },
  'too-large': { status: 413, title: 'Content too large' },
  'unsupported-media': { status: 415, title: 'Unsupported media type' },
  'too-many': { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Internal error' },
  unavailable: { status: 503, title: 'Unavailable' },
};

const retryAfterDefaultS = 5;

/** The error as the caller may see it: anything that is not ours is "internal", and says nothing of the inside. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError('internal', 'Something went wrong on our side. The request id identifies it in our logs.', {
    cause: error,
  });
}

export function statusOf(error: AppError): number {
  return answers[error.code].status;
}

/** Answers with the problem; when the headers are out already, the connection is cut instead. */
export function sendProblem(response: Response, error: AppError): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, title } = answers[error.code];
  const body: Problem = { type: 'about:blank', title, status, detail: error.publicMessage };
  if (error.issues.length > 0) body.errors = error.issues.slice(0, 100).map((issue) => ({ ...issue }));
  if (error.code === 'unauthorized') response.setHeader('WWW-Authenticate', 'Bearer');
  if (error.recovery.do === 'retry') {
    const afterS = error.recovery.afterMs === undefined ? retryAfterDefaultS : Math.ceil(error.recovery.afterMs / 1000);
    response.setHeader('Retry-After', String(Math.max(1, afterS)));
  }
  // What is left of a refused body is not read: the connection cannot be used again.
  if (!response.req.complete) response.setHeader('Connection', 'close');
  response.status(status).type(problemMediaType).send(JSON.stringify(body));
}
