/** One table from error codes to HTTP, and RFC 9457 bodies made from errors. */
import type { ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import { issuesMax } from '#contract/issue.ts';
import { type Problem, problemMediaType } from '#contract/problem.ts';
import { AppError, type ErrorCode } from '../errors.ts';

/** The status and the title of each error at the API. */
export const problemAnswers: Record<ErrorCode, { status: number; title: string }> = {
  invalid: { status: 400, title: 'Bad request' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  forbidden: { status: 403, title: 'Forbidden' },
  'not-found': { status: 404, title: 'Not found' },
  'method-not-allowed': { status: 405, title: 'Method not allowed' },
  'too-slow': { status: 408, title: 'Request timeout' },
  conflict: { status: 409, title: 'Conflict' },
  'too-large': { status: 413, title: 'Content too large' },
  'no-space': { status: 507, title: 'Insufficient storage' },
  'unsupported-media': { status: 415, title: 'Unsupported media type' },
  'no-such-range': { status: 416, title: 'Range not satisfiable' },
  'too-many': { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Internal error' },
  unavailable: { status: 503, title: 'Unavailable' },
};

const retryAfterDefaultS = 5;
const lingerMs = 1_000;
/** How much of a body that is not wanted is still read, so that a client that sends before it reads gets its answer. */
const discardedBytesMax = 1_048_576;

const internalText = 'Something went wrong on our side. The request id identifies it in our logs.';

/** An answer to an error in another form than problem details. */
export interface ErrorAnswer {
  readonly status: number;
  readonly mediaType?: string;
  /** Sent as JSON; without it the answer has no body. */
  readonly body?: unknown;
}

/** What the caller is told. The text of an internal error is written for operators, and says nothing here. */
export function publicTextOf(error: AppError): string {
  return error.code === 'internal' ? internalText : error.publicMessage;
}

/** Returns an AppError unchanged; every other error becomes `internal`. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  const message = error instanceof Error ? 'unexpected error' : `unexpected error: ${String(error)}`;
  return new AppError('internal', internalText, { message, cause: error });
}

function problemOf(error: AppError): ErrorAnswer {
  const { status, title } = problemAnswers[error.code];
  const body: Problem = { type: 'about:blank', title, status, detail: publicTextOf(error), ...error.figures };
  if (error.issues.length > 0 && error.code !== 'internal')
    body.errors = error.issues.slice(0, issuesMax).map((issue) => ({ ...issue }));
  return { status, mediaType: problemMediaType, body };
}

/**
 * Answers with the problem, or in the other form; when the headers were sent already, the connection is closed instead.
 */
export function sendProblem(response: ServerResponse, error: AppError, otherForm?: ErrorAnswer): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, mediaType, body } = otherForm ?? problemOf(error);
  // The code that refused may have set a more specific header.
  if (status === 401 && !response.hasHeader('WWW-Authenticate')) response.setHeader('WWW-Authenticate', 'Bearer');
  if (error.recovery.do === 'retry' || error.code === 'unavailable' || error.code === 'too-many')
    response.setHeader('Retry-After', String(retryAfterS(error)));
  const text = body === undefined ? '' : JSON.stringify(body);
  response.statusCode = status;
  if (mediaType !== undefined) response.setHeader('Content-Type', `${mediaType}; charset=utf-8`);
  response.setHeader('Content-Length', Buffer.byteLength(text));
  const { complete, destroyed, method } = response.req;
  if (complete || destroyed || method === 'HEAD') response.end(text);
  else sendBeforeBodyEnds(response, text);
}

function retryAfterS({ recovery }: AppError): number {
  const afterMs = recovery.do === 'retry' ? recovery.afterMs : undefined;
  return afterMs === undefined ? retryAfterDefaultS : Math.max(1, Math.ceil(afterMs / 1000));
}

/**
 * Answers while the client is still sending. Closing a connection with unread bytes resets it, and the client would
 * lose the answer. So the rest is read and discarded until the client closes or finishes: for `lingerMs` and up to
 * `discardedBytesMax`, and nothing beyond.
 */
function sendBeforeBodyEnds(response: ServerResponse, text: string): void {
  const { req: request } = response;
  response.setHeader('Connection', 'close');
  response.write(text);
  let discarded = 0;
  const discard = (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded > discardedBytesMax) request.off('data', discard).pause();
  };
  const timer = setTimeout(() => response.end(), lingerMs);
  const done = () => {
    clearTimeout(timer);
    response.end();
  };
  request.once('end', done).once('close', done).once('error', done).on('data', discard).resume();
}

/** Throws the refusal that is answered 405; `allow` lists the methods of this path. */
export function refuseMethod(request: Request, response: Response, route: string, allow: string): never {
  response.locals.route = route;
  response.setHeader('Allow', allow);
  throw new AppError('method-not-allowed', `${request.method} is not possible here. Possible: ${allow}.`);
}
