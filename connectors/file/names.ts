/**
 * File names by template: safe on every file system, whatever stands in the documents. What makes names differ (the key,
 * the sequence number) is never cut or altered in a way that could make two names one.
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

/** Longer names are possible in no file system, or not with what stands behind them. In bytes. */
const nameBytesMax = 200;
const placeholder = /\{([^{}]*)\}/g;

/** What is wrong with a template; undefined: nothing. */
export function templateFault(
  template: string,
  { placeholders, needs }: { placeholders: readonly string[]; needs?: string },
): string | undefined {
  const used = [...template.matchAll(placeholder)].map(([, name = '']) => name);
  const unknown = used.find((name) => !placeholders.includes(name));
  if (unknown !== undefined)
    return `{${unknown}} is nothing that a name can be made of here: there is ${placeholders.map((one) => `{${one}}`).join(', ')}`;
  const plain = template.replaceAll(placeholder, '');
  const wrong = /[^A-Za-z0-9._-]/u.exec(plain)?.[0];
  if (wrong !== undefined)
    return `a name may have letters, digits, dots, hyphens and underscores beside placeholders, not "${wrong}"`;
  if (template === '' || template.startsWith('.') || template.endsWith('.'))
    return 'a name must not be empty, nor begin or end with a dot';
  if (needs !== undefined && !used.includes(needs))
    return `a name must have {${needs}}: without it two files would get one name`;
  return undefined;
}

/** The name that a template gives; what a document has no value for is empty. */
export function fillTemplate(template: string, valueOf: (name: string) => string): string {
  return safeName(template.replaceAll(placeholder, (_all, name: string) => valueOf(name)));
}

/** What a placeholder stands for in a document's file name. */
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

/** `{date}` and `{time}`, in UTC. */
export function timeInName(name: string, now: Date): string {
  const digits = now.toISOString().replaceAll(/[-:]/g, '');
  return name === 'date' ? digits.slice(0, 8) : `${digits.slice(0, 15)}Z`;
}

/** `award_<event id>_<supplier id>`; what is in no UUID is escaped, so that two keys never share a name. */
export function baseName(document: Document): string {
  return safeName(`${document.kind}_${escapedKey(document)}`);
}

function escapedKey({ key }: Document): string {
  const escape = (character: string) => (character === '/' ? '_' : `%${character.codePointAt(0)?.toString(16)}%`);
  return key.replaceAll(/[^A-Za-z0-9-]/gu, escape);
}

/**
 * As `baseName` has it. Beside other values, or where some file systems would not tell `V-1` from `v-1`, it has its
 * checksum behind it: a supplier's key may be any text, also one that reads on where another value ends.
 */
function keyInName(document: Document): string {
  const escaped = escapedKey(document);
  const plain =
    document.kind !== 'supplier' && !/[A-Z]/.test(document.key) && Buffer.byteLength(escaped) <= keyBytesMax;
  return plain ? escaped : `${escaped.slice(0, keyBytesMax - 33)}-${hashOf(document.key).slice(0, 32)}`;
}

const keyBytesMax = 120;

/** Letters and digits of every script stay; what a file system may refuse, or take for more than a name, does not. */
function plainValue(value = ''): string {
  return cut(value.normalize('NFC').replaceAll(/[^\p{L}\p{M}\p{N}-]+/gu, '_'), 60);
}

/** A file's own name, as safe as it has to be to stand in a folder. Its ending stays. */
export function ownName(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1).normalize('NFC');
  const safe = base.replaceAll(/[^\p{L}\p{M}\p{N} ._()+-]+/gu, '_').replaceAll(/^[. ]+|[. ]+$/g, '');
  const at = safe.lastIndexOf('.');
  const [stem, ending] = at > 0 && safe.length - at <= 10 ? [safe.slice(0, at), safe.slice(at)] : [safe, ''];
  return notReserved(`${cut(stem, 120) || 'file'}${ending}`);
}

/** `quote.pdf` and `-x` give `quote-x.pdf`. */
export function beforeEnding(name: string, text: string): string {
  const at = name.lastIndexOf('.');
  return at > 0 ? `${name.slice(0, at)}${text}${name.slice(at)}` : `${name}${text}`;
}

function safeName(name: string): string {
  const whole = notReserved(name);
  return Buffer.byteLength(whole) <= nameBytesMax ? whole : `${cut(whole, nameBytesMax - 65)}_${hashOf(whole)}`;
}

/** Windows takes these for devices, whatever follows after a dot. */
function notReserved(name: string): string {
  return /^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)/i.test(name) ? `_${name}` : name;
}

/** At most so many bytes, and no half character. */
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
