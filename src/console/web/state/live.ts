/** Keeps pages live: what is in front of a reader is asked for again every few seconds. */
import { effect, signal } from '@preact/signals';

export const paused = signal(read('paused') === 'yes');
/** Grows each time that the page's answers are to be asked for again. */
export const tick = signal(0);

const askMs = 2_000;

let loads = 0;

/** Starts it, once for a page. */
export function startLive(): void {
  setInterval(ask, askMs);
  document.addEventListener('visibilitychange', ask);
  effect(() => write('paused', paused.value ? 'yes' : 'no'));
}

/** Counts an answer as being loaded, until the function that it returns is called. */
export function noteLoad(): () => void {
  loads += 1;
  return () => {
    loads -= 1;
  };
}

/** A text that is being selected stays selected, and an answer on its way is waited for: asking again would drop it. */
function ask(): void {
  if (paused.value || document.hidden || loads > 0 || isSelecting()) return;
  tick.value += 1;
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
