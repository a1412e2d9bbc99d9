/** The network of simulated processes: how they listen, fetch, and find their connectors. */
import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import type { Connector } from '#connector/connector.ts';
import type { GuardedRequest, GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { FetchError, type GuardedFetch } from '#platform/guarded-fetch.ts';
import type { HostileSource } from './hostile-source.ts';
import type { SimulatedErp } from './simulated-erp.ts';
import type { SimulatedService } from './simulated-service.ts';
import { processHere } from './simulated-signals.ts';
import type { SimulatedProcess, World } from './world.ts';

interface Reached {
  readonly origin: string;
  readonly source: HostileSource;
  readonly service: SimulatedService;
}

const listeners = new WeakMap<SimulatedProcess, RequestListener>();
const erps = new WeakMap<World, ReadonlyMap<string, SimulatedErp>>();

/** Lets the processes of this world find these ERPs, by the names of connectors. */
export function connectErps(world: World, named: ReadonlyMap<string, SimulatedErp>): void {
  erps.set(world, named);
}

export function connectorOf(name: string): Connector {
  const erp = erps.get(processHere().world)?.get(name);
  if (!erp) throw new Error(`There is no simulated ERP named ${name}.`);
  return erp.connector();
}

export function listenIn(listener: RequestListener, { tls }: { tls?: object }) {
  const process = processHere();
  // Only the webhook endpoint uses HTTPS; the console is not simulated.
  if (tls) listeners.set(process, listener);
  return { url: `https://${process.id}.test`, port: 443, close: async () => void listeners.delete(process) };
}

/** How many turns of the event loop Node's streams need at most to hand over a body. */
const turnsOfRequest = 6;

export function isListening(process: SimulatedProcess): boolean {
  return process.alive && listeners.has(process);
}

/** Sends a request to the process; `answered` is called with the status, unless the process dies before. */
export function sendTo(
  process: SimulatedProcess,
  { path, headers, body }: { path: string; headers: Record<string, string>; body: string },
  answered: (status: number) => void,
): void {
  process.deliver(() => {
    const listener = listeners.get(process);
    if (!listener) return;
    process.world.turns = turnsOfRequest;
    const request = new IncomingMessage(new Socket());
    request.method = 'POST';
    request.url = path;
    const length = String(Buffer.byteLength(body));
    request.headers = { ...headers, host: 'bridge.test', 'content-type': 'application/json', 'content-length': length };
    request.push(body);
    request.push(null);
    request.complete = true;
    const response = new ServerResponse(request);
    response.assignSocket(new Writable({ write: (_chunk, _encoding, done) => done() }) as Socket);
    const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
    response.end = ((...args: unknown[]) => {
      const ended = end(...args);
      process.world.after(1, () => {
        if (process.alive) answered(response.statusCode);
      });
      response.emit('close');
      return ended;
    }) as typeof response.end;
    listener(request, response);
  });
}

/** The `fetch` of a process, which reaches the sources. */
export function fetchIn(process: SimulatedProcess, sources: readonly Reached[]): GuardedFetch {
  const random = process.random.of('network');
  return (request) => {
    const url = new URL(request.url);
    const asked = sources.find(({ origin }) => origin === url.origin) ?? sources[0];
    if (!asked) throw new Error('There is no source.');
    const { source, service } = asked;
    const slow = process.world.chaos && random.chance(source.faults.slow);
    const travel = {
      toMs: 2 + 60 * random.fraction(),
      fromMs: slow ? 20_000 * random.fraction() : 2 + 60 * random.fraction(),
    };
    const exchange = process.beyond<GuardedResponse>(`${request.method} ${url.pathname}${url.search}`, travel, () => {
      const body = request.body === undefined ? '' : Buffer.from(request.body).toString();
      const answer =
        service.answer({ method: request.method, url, body }) ??
        source.answer(request.method, url, request.headers ?? {});
      if (answer === 'cut') throw failed('reset', 'The connection was closed in the middle of the answer.');
      process.world.log(process.id, `fetched ${url.pathname}${url.search} -> ${answer.status}`);
      const { status, headers } = answer;
      return { status, headers, body: Buffer.from(answer.body), truncated: false };
    });
    return Promise.race([exchange, timeoutOrAbort(process, request, exchange)]);
  };
}

/** Rejects when the request times out or is aborted before the exchange has ended. */
function timeoutOrAbort(
  process: SimulatedProcess,
  { timeoutMs, signal }: GuardedRequest,
  exchange: Promise<unknown>,
): Promise<never> {
  return new Promise((_resolve, reject) => {
    const noAnswer = () => reject(failed('timeout', 'No answer in time.'));
    const timeout = process.world.after(timeoutMs, () => process.deliver(noAnswer));
    const abort = () => reject(failed('aborted', 'The request was given up.'));
    if (signal?.aborted) abort();
    const stopListening = process.listen(signal, abort);
    const over = () => {
      timeout.cancelled = true;
      stopListening();
    };
    exchange.then(over, over);
  });
}

function failed(reason: 'reset' | 'timeout' | 'aborted', text: string): FetchError {
  return new FetchError('unavailable', reason, text, { recovery: { do: 'retry' } });
}
