/**
 * File names. They are safe on every file system and on every screen, whatever the documents contain: no separators, no
 * control characters, none that turns the direction of the text (U+202E), and at most 200 bytes.
 */
import type { Document } from 'sourcing-bridge/connector';
import { joinPath, sha256 } from './folder.ts';

const placeholders = ['kind', 'date', 'time', 'sequence'];

/** File systems allow 255; the rest is for endings and suffixes. */
export const nameBytesMax = 200;
const placeholder = /\{([^{}]*)\}/g;

/** What is wrong with a template of the names of batches; undefined when it is valid. */
export function templateFault(template: string): string | undefined {
  const used = [...template.matchAll(placeholder)].map(([, name = '']) => name);
  const unknown = used.find((name) => !placeholders.includes(name));
  if (unknown !== undefined)
    return `{${unknown}} is not a placeholder here: use ${placeholders.map((name) => `{${name}}`).join(', ')}`;
  const invalid = /[^A-Za-z0-9._-]/u.exec(template.replaceAll(placeholder, ''))?.[0];
  if (invalid !== undefined)
    return `a name may have placeholders, letters, digits, dots, hyphens and underscores, not "${invalid}"`;
  if (/^[.-]/.test(template)) return 'a name must not begin with a dot or a hyphen';
  if (!used.includes('sequence')) return 'a name must have {sequence}: without it two files would get the same name';
  return undefined;
}

/** The name of a batch; times are in UTC. */
export function batchName(template: string, { kind, sequence, stampMs }: BatchNaming): string {
  const digits = new Date(stampMs).toISOString().replaceAll(/[-:]/g, '');
  const values: Record<string, string> = { kind, sequence, date: digits.slice(0, 8), time: `${digits.slice(0, 15)}Z` };
  return safeName(template.replaceAll(placeholder, (_all, name: string) => values[name] ?? ''));
}

interface BatchNaming {
  readonly kind: string;
  readonly sequence: string;
  readonly stampMs: number;
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
