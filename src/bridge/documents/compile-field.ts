/** One field of a mapping: how its value is found, what is made of it, and what is wrong with its settings. */
import { PathError, templateParts } from '#connector/document-paths.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import { fieldForms } from './field-types.ts';
import { Unmade } from './made-document.ts';
import { compileMappingPath, type ReadPath } from './mapping-path.ts';
import type { MappingRule } from './mapping-settings.ts';

export interface CompiledField {
  readonly name: string;
  /** The field's value; undefined where it has none. Throws FieldFault. */
  readonly make: (document: Document, line: unknown) => string | undefined;
}

/** Why a field cannot be made of a document, and what to do. */
export class FieldFault extends Error {}

/** What is wrong with a field's settings, and with which member. */
interface SettingsFault {
  readonly fault: string;
  readonly at: readonly string[];
}

export function compileField(
  kind: DocumentKind,
  name: string,
  rule: MappingRule,
  inLine: boolean,
): CompiledField | SettingsFault {
  const full = typeof rule === 'string' ? { from: rule, type: 'text' as const, required: false } : rule;
  const sources = (['from', 'template', 'value'] as const).filter((member) => full[member] !== undefined);
  if (sources.length !== 1 && !(sources.length === 0 && full.default !== undefined))
    return { fault: 'must have one of from, template and value', at: [] };
  const [source = 'default'] = sources;
  const fault = faultOfConstants(full);
  if (fault !== undefined) return fault;
  try {
    const { read, says } = finderOf(kind, full, inLine);
    return { name, make: (document, line) => madeOf(full, read(document, line), says) };
  } catch (error) {
    if (error instanceof PathError) return { fault: error.message, at: typeof rule === 'string' ? [] : [source] };
    throw error;
  }
}

type Rule = Exclude<MappingRule, string>;

/** What the settings say themselves must read as the type: else each document would be a dead letter. */
function faultOfConstants({ default: given, value, map, type, cut: most }: Rule): SettingsFault | undefined {
  const constants: [readonly string[], string | undefined][] = [
    [['default'], given],
    // What a map makes of it counts.
    [['value'], map === undefined ? value : undefined],
    ...Object.entries(map ?? {}).map(([key, made]): [string[], string] => [['map', key], made]),
  ];
  for (const [at, text] of constants)
    if (text !== undefined && !readsAs(type, text)) return { fault: `must be ${fieldForms[type].expected}`, at };
  if (most !== undefined && (type === 'decimal' || type === 'integer'))
    return { fault: 'is not possible: a number that is cut is another number', at: ['cut'] };
  return undefined;
}

function readsAs(type: Rule['type'], text: string): boolean {
  try {
    return fieldForms[type].read(text) !== undefined;
  } catch (error) {
    if (error instanceof Unmade) return false;
    throw error;
  }
}

function finderOf(kind: DocumentKind, { from, template, value }: Rule, inLine: boolean) {
  if (from !== undefined) {
    const paths = [from].flat();
    const reads = paths.map((path) => compileMappingPath(kind, path, inLine));
    return { read: firstOf(reads), says: `${paths.join(' and ')} ${paths.length > 1 ? 'lead' : 'leads'} to nothing` };
  }
  if (template !== undefined)
    return { read: templateOf(kind, template, inLine), says: `a part of ${template} leads to nothing` };
  return { read: () => value, says: '' };
}

function firstOf(reads: readonly ReadPath[]): ReadPath {
  return (document, line) => {
    for (const read of reads) {
      const text = read(document, line);
      if (!isBlank(text)) return text;
    }
    return undefined;
  };
}

/** Nothing at all when a part of it leads to nothing. */
function templateOf(kind: DocumentKind, template: string, inLine: boolean): ReadPath {
  const parts = templateParts(template).map((part) =>
    typeof part === 'string' ? part : compileMappingPath(kind, part.path, inLine),
  );
  return (document, line) => {
    let text = '';
    for (const part of parts) {
      const read = typeof part === 'string' ? part : part(document, line);
      if (typeof part !== 'string' && isBlank(read)) return undefined;
      text += read ?? '';
    }
    return text;
  };
}

function isBlank(text: string | undefined): boolean {
  return text === undefined || text.trim() === '';
}

function madeOf(rule: Rule, found: string | undefined, says: string): string | undefined {
  if (found === undefined || (isBlank(found) && rule.value === undefined)) {
    if (rule.default !== undefined) return cut(fieldForms[rule.type].read(rule.default), rule);
    if (rule.required)
      throw new FieldFault(`has no value, as ${says}; fill it in the sourcing service, or give the field a default`);
    return undefined;
  }
  return cut(typed(rule, mapped(rule, found)), rule);
}

function mapped({ map }: Rule, text: string): string {
  if (map === undefined) return text;
  for (const key of [text, text.trim(), '*']) if (Object.hasOwn(map, key)) return map[key] ?? '';
  throw new FieldFault(`is ${quoted(text)}, which its map does not have; add it, or "*" for any other value`);
}

function typed({ type }: Rule, text: string): string {
  const form = fieldForms[type];
  try {
    const value = form.read(text);
    if (value !== undefined) return value;
  } catch (error) {
    if (error instanceof Unmade) throw new FieldFault(`is ${quoted(text)}; ${error.message}`);
    throw error;
  }
  throw new FieldFault(`is ${quoted(text)}; it must be ${form.expected}`);
}

function cut(text: string | undefined, { cut: most }: Rule): string | undefined {
  // A character that takes two code units is not cut in its middle.
  return text === undefined || most === undefined || text.length <= most
    ? text
    : Array.from(text).slice(0, most).join('');
}

const quotedMax = 60;

function quoted(text: string): string {
  return JSON.stringify(text.length > quotedMax ? `${text.slice(0, quotedMax)}…` : text);
}
