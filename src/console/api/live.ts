/**
 * The stream by which open pages learn that something has changed: server-sent events, one stream for each browser. One
 * look at the status a second serves all streams of the process, and none is made while no page is open. An event carries
 * no data of the bridge but a number: what has changed each page asks for itself, with its own rights.
 */
import type { Request, Response } from 'express';
import type { BridgeStatus } from '#bridge/operate/status/status.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

const lookMs = 1_000;
/** A proxy closes a connection on which nothing comes, often after a minute; and a page notices that a stream is dead. */
const heartbeatMs = 15_000;
/** A stream ends within 5 s of its session. */
const checkMs = 4_000;
/** Upper bounds of the streams of a process, and of one person. */
const streamsMost = 200;
const streamsEach = 20;

export interface LiveStream {
  /** Answers with the stream. Throws AppError `forbidden` for another origin, `unavailable` beyond the upper bounds. */
  open(request: Request, response: Response, person: string): void;
  close(): void;
}

export function createLiveStream({
  status,
  clock,
  isCurrent,
}: {
  status: () => Promise<BridgeStatus>;
  clock: Clock;
  /** Whether the session of a stream has not ended. */
  isCurrent: (request: Request) => Promise<boolean>;
}): LiveStream {
  const streams = new Map<Response, { request: Request; person: string }>();
  let seen = '';
  let number = 0;
  let looking: Promise<void> | undefined;
  let checking: Promise<void> | undefined;
  const closing = new AbortController();

  async function look(): Promise<void> {
    let quietMs = 0;
    while (streams.size > 0 && !closing.signal.aborted) {
      const now = await status().then(signatureOf, () => seen);
      if (now !== seen) {
        seen = now;
        number += 1;
        quietMs = 0;
        tell(`event: changed\nid: ${number}\ndata: ${number}\n\n`);
      } else if (quietMs >= heartbeatMs) {
        quietMs = 0;
        tell('event: alive\ndata: 0\n\n');
      }
      await clock.sleep(lookMs, closing.signal).catch(() => undefined);
      quietMs += lookMs;
    }
    looking = undefined;
  }

  async function check(): Promise<void> {
    while (streams.size > 0 && !closing.signal.aborted) {
      await clock.sleep(checkMs, closing.signal).catch(() => undefined);
      for (const [response, { request }] of streams) if (!(await isCurrent(request).catch(() => true))) response.end();
    }
    checking = undefined;
  }

  function tell(event: string): void {
    for (const response of streams.keys()) send(response, event);
  }

  return {
    open(request, response, person) {
      const site = request.headers['sec-fetch-site'];
      // EventSource sends no Origin. A client that is no browser sends neither, and has no cookie of a person.
      if (site !== undefined && site !== 'same-origin')
        throw new AppError('forbidden', 'The stream is for the pages of this console only.');
      const own = [...streams.values()].filter((stream) => stream.person === person).length;
      if (streams.size >= streamsMost || own >= streamsEach)
        throw new AppError('unavailable', 'Too many pages are open: this one asks from time to time instead.');
      response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
      response.setHeader('Cache-Control', 'no-store');
      // nginx holds answers back, unless it is told not to.
      response.setHeader('X-Accel-Buffering', 'no');
      response.flushHeaders();
      streams.set(response, { request, person });
      response.on('close', () => streams.delete(response));
      send(response, 'retry: 5000\nevent: alive\ndata: 0\n\n');
      looking ??= look();
      checking ??= check();
    },
    close() {
      closing.abort();
      for (const response of streams.keys()) response.end();
      streams.clear();
    },
  };
}

/** Compression holds back what is shorter than its window, until it is flushed. */
function send(response: Response & { flush?: () => void }, event: string): void {
  response.write(event);
  response.flush?.();
}

/** Changes whenever something that a page shows has changed; times that only pass leave it as it is. */
function signatureOf({ feeds, flows, intakes, delivered, deadLetters, backfills, waiting }: BridgeStatus): string {
  return JSON.stringify([
    feeds.map(({ watermark, waiting, failures, newest, stalled, lag }) => [
      watermark,
      waiting,
      failures,
      newest,
      stalled,
      lag.inStep,
    ]),
    flows.map(({ due, deadLetters: dead, pausedReason, circuitUntil, stuck, retrying, lag }) => [
      due,
      dead,
      pausedReason,
      circuitUntil,
      stuck,
      retrying,
      lag.inStep,
    ]),
    intakes.map(({ backlog, toCompare, inSubmissions, deadLetters: dead, pausedReason, readFailures, lag }) => [
      backlog.suppliers,
      toCompare,
      inSubmissions,
      dead,
      pausedReason,
      readFailures,
      lag.inStep,
    ]),
    delivered[0],
    deadLetters[0],
    waiting.length,
    backfills,
  ]);
}
