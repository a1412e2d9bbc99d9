/**
 * File names by template. They are safe on every file system, whatever the documents contain. The values that make
 * names unique (the key, the sequence number) are never cut or changed in a way that could make two names equal.
 */
import { createHash } from 'node:crypto';
import type { Document } from 'sourcing-bridge/connector';

export const documentPlaceholders = [
  'kind',
  'key',
  'event.id',
  'event.reference_id',
  'event.name',
  'supplier.id',
  'supplier.external_id',
  'supplier.name',
  'date',
  'time',
] as const;
export const batchPlaceholders = ['kind', 'date', 'time', 'sequence'] as const;
/** Of files that say what became of requisitions. */
export const newsPlaceholders = ['date', 'time', 'sequence'] as const;

/** In bytes. File systems allow 255; the rest is for endings and suffixes. */
const nameBytesMax = 200;
const placeholder = /\{([^{}]*)\}/g;

/** What is wrong with a template; undefined when it is valid. */
export function templateFault(
  template: string,
  { placeholders, needs }: { placeholders: readonly string[]; needs?: string },
): string | undefined {
  const used = [...template.matchAll(placeholder)].map(([, name = '']) => name);
  const unknown = used.find((name) => !placeholders.includes(name));
  if (unknown !== undefined)
    return `{${unknown}} is not a placeholder here: use ${placeholders.map((name) => `{${name}}`).join(', ')}`;
  const plain = template.replaceAll(placeholder, '');
  const invalid = /[^A-Za-z0-9._-]/u.exec(plain)?.[0];
  if (invalid !== undefined)
    return `a name may have placeholders, letters, digits, dots, hyphens and underscores, not "${invalid}"`;
  if (template === '' || /^[.-]|\.$/.test(template))
    return 'a name must not be empty, nor begin with a dot or a hyphen, nor end with a dot';
  if (needs !== undefined && !used.includes(needs))
    return `a name must have {${needs}}: without it two files would get the same name`;
  return undefined;
}

/** Fills a template. `valueOf` returns the value of a placeholder, empty when the document has none. */
export function fillTemplate(template: string, valueOf: (name: string) => string): string {
  return safeName(template.replaceAll(placeholder, (_all, name: string) => valueOf(name)));
}

/** The value of a placeholder for a document. */
export function placeholderValue(name: string, document: Document, now: Date): string {
  const { event, supplier } = { event: undefined, supplier: undefined, ...document };
  switch (name) {
    case 'kind':
      return document.kind;
    case 'key':
      return keyInName(document);
    case 'event.id':
      return plainValue(event?.id);
    case 'event.reference_id':
      return plainValue(event?.reference_id);
    case 'event.name':
      return plainValue(event?.name);
    case 'supplier.id':
      return plainValue(supplier?.id ?? (document.kind === 'supplier' ? document.id : undefined));
    case 'supplier.external_id':
      return plainValue(supplier?.external_id ?? (document.kind === 'supplier' ? document.external_id : undefined));
    case 'supplier.name':
      return plainValue(supplier?.name ?? (document.kind === 'supplier' ? document.name : undefined));
    default:
      return timeInName(name, now);
  }
}

/** The value of `{date}` or `{time}`, in UTC. */
export function timeInName(name: string, now: Date): string {
  const digits = now.toISOString().replaceAll(/[-:]/g, '');
  return name === 'date' ? digits.slice(0, 8) : `${digits.slice(0, 15)}Z`;
}

/** `award_<event id>_<supplier id>`. Characters that no UUID has are escaped, so that two keys never share a name. */
export function baseName(document: Document): string {
  return safeName(`${document.kind}_${escapedKey(document)}`);
}

function escapedKey({ key }: Document): string {
  const escape = (character: string) => (character === '/' ? '_' : `%${character.codePointAt(0)?.toString(16)}%`);
  return key.replaceAll(/[^A-Za-z0-9-]/gu, escape);
}

/**
 * The key as in `baseName`. A checksum follows it for suppliers, for keys with capital letters and for long keys. A
 * supplier's key may be any text, even one that looks like the continuation of another value, and some file systems do
 * not distinguish `V-1` from `v-1`.
 */
function keyInName(document: Document): string {
  const escaped = escapedKey(document);
  const plain =
    document.kind !== 'supplier' && !/[A-Z]/.test(document.key) && Buffer.byteLength(escaped) <= keyBytesMax;
  return plain ? escaped : `${escaped.slice(0, keyBytesMax - 33)}-${hashOf(document.key).slice(0, 32)}`;
}

const keyBytesMax = 120;

/** Keeps letters and digits of every script, and replaces characters that a file system may refuse or interpret. */
function plainValue(value = ''): string {
  return cut(value.normalize('NFC').replaceAll(/[^\p{L}\p{M}\p{N}-]+/gu, '_'), 60);
}

/** A file's own name, made safe for every file system. Its ending stays. */
export function ownName(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1).normalize('NFC');
  const safe = base.replaceAll(/[^\p{L}\p{M}\p{N} ._()+-]+/gu, '_').replaceAll(/^[. ]+|(?<![. ])[. ]+$/g, '');
  const at = safe.lastIndexOf('.');
  const [stem, ending] = at > 0 && safe.length - at <= 10 ? [safe.slice(0, at), safe.slice(at)] : [safe, ''];
  return harmlessName(`${cut(stem, 120) || 'file'}${ending}`);
}

/** Inserts a text before the ending: `quote.pdf` and `-x` become `quote-x.pdf`. */
export function beforeEnding(name: string, text: string): string {
  const at = name.lastIndexOf('.');
  return at > 0 ? `${name.slice(0, at)}${text}${name.slice(at)}` : `${name}${text}`;
}

function safeName(name: string): string {
  const whole = harmlessName(name);
  return Buffer.byteLength(whole) <= nameBytesMax ? whole : `${cut(whole, nameBytesMax - 65)}_${hashOf(whole)}`;
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
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > bytesMax) break;
    end += character.length;
  }
  return text.slice(0, end);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
