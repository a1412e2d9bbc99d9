/**
 * People who look at the console, as their pages do it: each follows the live stream, and asks for what its page shows
 * whenever something has changed. Or a flood: each asks again as soon as it is answered. A process of its own, since browsers do not run on the server.
 */
export interface ReadersOrder {
  url: string;
  paths: readonly string[];
  floods: boolean;
}
export interface ReadersReport {
  requests: number;
  bytes: number;
  /** Answers other than 200. */
  failures: number;
}

/** As `live.ts` of the pages: changes that come in a burst are one. */
const burstMs = 1_200;

const report: ReadersReport = { requests: 0, bytes: 0, failures: 0 };
let stop = new AbortController();
let readers: Promise<void>[] = [];

process.on('message', (order: ReadersOrder | 'stop') => void carryOut(order));

async function carryOut(order: ReadersOrder | 'stop'): Promise<void> {
  if (order === 'stop') {
    stop.abort();
    await Promise.all(readers);
    process.send?.({ ...report });
    return;
  }
  stop = new AbortController();
  Object.assign(report, { requests: 0, bytes: 0, failures: 0 });
  const { signal } = stop;
  const look = order.floods ? askOn : follow;
  const opened = order.paths.map((path) => look(order.url, path, signal));
  await Promise.all(opened.map(({ isOpen }) => isOpen));
  readers = opened.map(({ ended }) => ended);
  process.send?.({ ...report });
}

function follow(url: string, path: string, signal: AbortSignal): { isOpen: Promise<void>; ended: Promise<void> } {
  const opened = Promise.withResolvers<void>();
  const ended = (async () => {
    const stream = await fetch(`${url}/api/live`, { signal });
    opened.resolve();
    let lastMs = Number.NEGATIVE_INFINITY;
    const decoder = new TextDecoder();
    for await (const chunk of stream.body ?? []) {
      if (!decoder.decode(chunk).includes('event: changed') || performance.now() - lastMs < burstMs) continue;
      lastMs = performance.now();
      await load(`${url}${path}`, signal);
    }
  })().catch((error: unknown) => {
    if (!signal.aborted) {
      report.failures += 1;
      opened.reject(error);
    }
  });
  return { isOpen: opened.promise, ended };
}

function askOn(url: string, path: string, signal: AbortSignal): { isOpen: Promise<void>; ended: Promise<void> } {
  const ended = (async () => {
    while (!signal.aborted) await load(`${url}${path}`, signal);
  })().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return { isOpen: Promise.resolve(), ended };
}

async function load(url: string, signal: AbortSignal): Promise<void> {
  const answer = await fetch(url, { signal });
  const body = await answer.arrayBuffer();
  report.requests += 1;
  report.bytes += body.byteLength;
  if (answer.status !== 200) report.failures += 1;
}
