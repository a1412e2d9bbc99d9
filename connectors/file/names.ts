/**
 * File names. They are safe on every file system and on every screen, whatever the documents contain: no separators, no
 * control characters, none that turns the direction of the text (U+202E), and at most 200 bytes.
 */
import type { Document } from 'sourcing-bridge/connector';
import { joinPath, sha256 } from './folder.ts';

/** File systems allow 255; the rest is for endings and suffixes. */
export const nameBytesMax = 200;

/** `award_20300131T235958Z_1896134398000-5f2c91ab03d4`: the name of a batch, with its time in UTC. */
export function batchName(kind: string, { sequence, stampMs }: { sequence: string; stampMs: number }): string {
  const time = new Date(stampMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `${kind}_${time}_${sequence}`;
}

/** `award_<event id>_<supplier id>`. Characters that no UUID has are escaped, so that two keys never share a name. */
export function baseName({ kind, key }: Pick<Document, 'kind' | 'key'>): string {
  return safeName(`${kind}_${escapedKey(key)}`);
}

/** The folder for the bytes of files. */
export const bytesFolder = 'files';

/** The path for the bytes of a file: its own name with a suffix that makes it unique. */
export function bytesPath(given: string, suffix: string): string {
  const name = ownName(given);
  const at = name.lastIndexOf('.');
  return joinPath(bytesFolder, at > 0 ? `${name.slice(0, at)}${suffix}${name.slice(at)}` : `${name}${suffix}`);
}

/** A file's own name, made safe. Its ending stays. */
export function ownName(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1).normalize('NFC');
  const safe = base.replaceAll(/[^\p{L}\p{M}\p{N} ._()+-]+/gu, '_').replaceAll(/^[. ]+|(?<![. ])[. ]+$/g, '');
  const at = safe.lastIndexOf('.');
  const [stem, ending] = at > 0 && safe.length - at <= 10 ? [safe.slice(0, at), safe.slice(at)] : [safe, ''];
  return harmlessName(`${cut(stem, 120) || 'file'}${ending}`);
}

/** A name that others gave, for a person's eyes: control characters and those without a shape as their codes. */
export function shownName(name: string): string {
  return name.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

function escapedKey(key: string): string {
  const escape = (character: string) => (character === '/' ? '_' : `%${character.codePointAt(0)?.toString(16)}%`);
  return key.replaceAll(/[^A-Za-z0-9-]/gu, escape);
}

function safeName(name: string): string {
  const whole = harmlessName(name);
  return Buffer.byteLength(whole) <= nameBytesMax ? whole : `${cut(whole, nameBytesMax - 65)}_${sha256(whole)}`;
}

/**
 * Windows treats these names as devices, whatever follows after a dot. A program that gets a name with a hyphen at its
 * beginning (`rm *`, `tar *`) takes it for an option.
 */
function harmlessName(name: string): string {
  return /^(?:-|(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$))/i.test(name) ? `_${name}` : name;
}

/** The beginning of a text in at most `bytesMax` bytes, without half a character. */
function cut(text: string, bytesMax: number): string {
  let end = 0;
  let bytes = 0;
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > bytesMax) break;
    end += character.length;
  }
  return text.slice(0, end);
}
