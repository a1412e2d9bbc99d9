/** Times as people read them, in the zone of their browser. */

const format = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium' });

/** `2030-01-02 03:04:05`. */
export function timeText(timestamp: string): string {
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? timestamp : format.format(date);
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
