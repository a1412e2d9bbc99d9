/** Times as the reader wants them: in the zone of the browser, or in UTC. */
import { effect, signal } from '@preact/signals';

export const zone = signal<'local' | 'utc'>(readZone());

effect(() => {
  try {
    localStorage.setItem('zone', zone.value);
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
});

function readZone(): 'local' | 'utc' {
  try {
    return localStorage.getItem('zone') === 'utc' ? 'utc' : 'local';
  } catch {
    return 'local';
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string | undefined): Intl.DateTimeFormat {
  const known = formats.get(timeZone ?? '');
  if (known) return known;
  const made = new Intl.DateTimeFormat('sv-SE', {
    dateStyle: 'short',
    timeStyle: 'medium',
    ...(timeZone === undefined ? {} : { timeZone }),
  });
  formats.set(timeZone ?? '', made);
  return made;
}

/** `2030-01-02 03:04:05`. */
export function timeText(timestamp: string, inZone: 'local' | 'utc' = zone.value): string {
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime())) return timestamp;
  return formatOf(inZone === 'utc' ? 'UTC' : undefined).format(date);
}

/** `5 s ago`, `in 3 min`. */
export function agoText(timestamp: string, nowMs: number): string {
  const seconds = Math.round((nowMs - new Date(timestamp).getTime()) / 1000);
  const size = Math.abs(seconds);
  const text =
    size < 90
      ? `${size} s`
      : size < 5_400
        ? `${Math.round(size / 60)} min`
        : size < 129_600
          ? `${Math.round(size / 3_600)} h`
          : `${Math.round(size / 86_400)} d`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}
