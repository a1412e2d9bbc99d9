/**
 * The header `Range` of a download (RFC 9110, 14.2), of which one range is served: of a file of 1,000 bytes `bytes=0-99`
 * are its first hundred, `bytes=900-` its last hundred, and so are `bytes=-100`; `bytes=1000-` is beyond its end. Several
 * ranges, another unit and what cannot be read are ignored, as the standard permits: the answer is the whole file.
 */
import type { ByteRange } from './storage/file-storage.ts';

/** The part that is asked for; undefined: the whole file; `beyond`: a part that the file does not have. */
export function readRange(header: string | undefined, size: number): ByteRange | 'beyond' | undefined {
  const [, from = '', to = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(header ?? '') ?? [];
  if (from === '' && to === '') return undefined;
  if (from === '')
    return Number(to) === 0 || size === 0 ? 'beyond' : { first: Math.max(0, size - Number(to)), last: size - 1 };
  const [first, last] = [Number(from), to === '' ? size - 1 : Math.min(Number(to), size - 1)];
  if (to !== '' && Number(to) < first) return undefined;
  return first >= size ? 'beyond' : { first, last };
}
