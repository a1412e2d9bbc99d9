/**
 * Keeps pages live. One tab of the browser holds the stream and tells the others, because six streams would use up the
 * connections that a browser has for a server. Where a browser or a proxy does not let the stream through, pages ask
 * from time to time.
 */
import { effect, signal } from '@preact/signals';

export const paused = signal(read('paused') === 'yes');
export const liveState = signal<'live' | 'asking' | 'paused'>('asking');
/** Grows when something has changed. */
export const tick = signal(0);

const silentMs = 40_000;
const askMs = 5_000;
const againMs = 10_000;
const burstMs = 1_200;
const loadMsMax = 10_000;

let heardMs = 0;
let lastTickMs = 0;
let loads = 0;
let waiting: ReturnType<typeof setTimeout> | undefined;

/** Starts it, once for a page. */
export function startLive(): void {
  const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel('sourcing-bridge') : undefined;
  channel?.addEventListener('message', ({ data }: MessageEvent<string>) => hear(data));
  // Without a secure origin there are no locks: then no tab knows whether another one holds the stream.
  if (channel && 'locks' in navigator)
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin by itself
    void navigator.locks.request('sourcing-bridge-live', () => holdStream((event) => channel.postMessage(event)));
  setInterval(() => {
    const isHeard = Date.now() - heardMs < silentMs;
    liveState.value = paused.value ? 'paused' : isHeard ? 'live' : 'asking';
    if (!isHeard) changed();
  }, askMs);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) changed();
  });
  effect(() => {
    write('paused', paused.value ? 'yes' : 'no');
    liveState.value = paused.value ? 'paused' : Date.now() - heardMs < silentMs ? 'live' : 'asking';
  });
}

/** Never resolves: the lock is held until the tab closes. */
function holdStream(tell: (event: string) => void): Promise<never> {
  const open = () => {
    const stream = new EventSource('/api/live');
    const pass = ({ type }: Event) => {
      hear(type);
      tell(type);
    };
    stream.addEventListener('changed', pass);
    stream.addEventListener('alive', pass);
    stream.addEventListener('error', () => {
      // The browser connects again by itself, unless it was refused.
      if (stream.readyState === EventSource.CLOSED) setTimeout(open, againMs);
    });
  };
  open();
  return new Promise(() => undefined);
}

function hear(event: string): void {
  heardMs = Date.now();
  if (!paused.value) liveState.value = 'live';
  if (event === 'changed') changed();
}

/** Counts an answer as being loaded, until the function that it returns is called. */
export function noteLoad(): () => void {
  loads += 1;
  return () => {
    loads -= 1;
  };
}

/**
 * Changes that come in a burst are one. A text that is being selected stays selected: the page waits for its end. An
 * answer on its way is waited for, too: where each takes longer than the next change, a page would never show one.
 */
function changed(): void {
  if (paused.value || document.hidden || waiting !== undefined) return;
  const wait = Math.max(0, lastTickMs + burstMs - Date.now());
  waiting = setTimeout(function proceed() {
    if (isSelecting() || (loads > 0 && Date.now() - lastTickMs < loadMsMax)) {
      waiting = setTimeout(proceed, burstMs);
      return;
    }
    waiting = undefined;
    lastTickMs = Date.now();
    tick.value += 1;
  }, wait);
}

function isSelecting(): boolean {
  return document.getSelection()?.isCollapsed === false;
}

function read(name: string): string | null {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

function write(name: string, value: string): void {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}
