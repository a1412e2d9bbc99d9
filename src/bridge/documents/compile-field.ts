/**
 * Compiles one field of a mapping: how its value is read from a document and converted. Finds wrong settings when they
 * are read, so that they cannot make dead letters later.
 */
import { PathError, templateParts } from '#connector/document-paths.ts';
import type { DocumentKind } from '#connector/documents.ts';
import { composed } from '#connector/human-text.ts';
import { fieldForms } from './field-types.ts';
import { Unmade } from './made-document.ts';
import { compileMappingPath, type ReadPath } from './mapping-path.ts';
import type { FullRule, MappingRule } from './mapping-rule.ts';

export interface CompiledField {
  readonly name: string;
  /** Returns the field's value; undefined when it has none. Throws FieldFault when the value is wrong or missing. */
  readonly make: (document: unknown, line: unknown) => string | undefined;
}

/** The value of a field cannot be made of a document; the message says why, and what to do. */
export class FieldFault extends Error {}

/** A field's settings are wrong. */
export interface SettingsFault {
  readonly fault: string;
  /** The path of the wrong member in the rule; empty for the rule as a whole. */
  readonly at: readonly string[];
}

/**
 * Compiles a field of the documents of a kind, or of their lines (`inLine`); `zone` is that of the flow's days. Returns the
 * fault of wrong settings.
 */
export function compileField(
  kind: DocumentKind,
  name: string,
  rule: MappingRule,
  { inLine, zone }: { inLine: boolean; zone?: string | undefined },
): CompiledField | SettingsFault {
  return compileFieldOf(name, rule, (path) => compileMappingPath(kind, path, inLine), zone);
}

/** Compiles one path of a rule. Throws PathError for a path that leads to nothing. */
type CompilePath = (path: string) => ReadPath;

/** As `compileField`, for values whose paths `compile` knows: documents, or records of an ERP. */
export function compileFieldOf(
  name: string,
  rule: MappingRule,
  compile: CompilePath,
  zone?: string,
): CompiledField | SettingsFault {
  const full = typeof rule === 'string' ? { from: rule, type: 'text' as const, required: false } : rule;
  const sources = (['from', 'template', 'value'] as const).filter((member) => full[member] !== undefined);
  if (sources.length !== 1 && !(sources.length === 0 && full.default !== undefined))
    return { fault: 'must have one of from, template and value', at: [] };
  const [source = 'default'] = sources;
  const fault = faultOfConstants(full);
  if (fault !== undefined) return fault;
  try {
    const { read, emptiness } = readerOf(full, compile);
    return { name, make: (document, line) => valueOf(full, read(document, line), { emptiness, zone }) };
  } catch (error) {
    if (error instanceof PathError) return { fault: error.message, at: typeof rule === 'string' ? [] : [source] };
    throw error;
  }
}

/** Values in the settings must read as the field's type: else every document would be a dead letter. */
function faultOfConstants(rule: FullRule): SettingsFault | undefined {
  const { default: fallback, value, map, type, cut: charactersMax } = rule;
  const constants: [readonly string[], string | undefined][] = [
    [['default'], fallback],
    // With a map, the mapped value counts.
    [['value'], map === undefined ? value : undefined],
    ...Object.entries(map ?? {}).map(([key, mappedValue]): [string[], string] => [['map', key], mappedValue]),
  ];
  for (const [at, text] of constants)
    if (text !== undefined && !readsAs(type, text)) return { fault: `must be ${fieldForms[type].expected}`, at };
  if (charactersMax !== undefined && (type === 'decimal' || type === 'integer'))
    return { fault: 'is not possible: a number that is cut is another number', at: ['cut'] };
  return undefined;
}

function readsAs(type: FullRule['type'], text: string): boolean {
  try {
    return fieldForms[type].read(text) !== undefined;
  } catch (error) {
    if (error instanceof Unmade) return false;
    throw error;
  }
}

/** Returns how the value is read, and in words why it has none when it is undefined. */
function readerOf({ from, template, value }: FullRule, compile: CompilePath) {
  if (from !== undefined) {
    const paths = [from].flat();
    const reads = paths.map(compile);
    return { read: firstOf(reads), emptiness: `${paths.join(' and ')} ${paths.length > 1 ? 'are' : 'is'} empty` };
  }
  if (template !== undefined)
    return { read: templateOf(template, compile), emptiness: `a part of ${template} is empty` };
  return { read: () => value, emptiness: '' };
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

/** The text of the template is undefined as a whole when one of its paths is empty. */
function templateOf(template: string, compile: CompilePath): ReadPath {
  const parts = templateParts(template).map((part) => (typeof part === 'string' ? part : compile(part.path)));
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

function valueOf(
  rule: FullRule,
  found: string | undefined,
  { emptiness, zone }: { emptiness: string; zone: string | undefined },
): string | undefined {
  if (found === undefined || (isBlank(found) && rule.value === undefined)) {
    if (rule.default !== undefined) return cut(fieldForms[rule.type].read(rule.default, zone), rule);
    if (rule.required)
      throw new FieldFault(
        `has no value, as ${emptiness}; fill it in the sourcing service, or give the field a default`,
      );
    return undefined;
  }
  return cut(typed(rule, mapped(rule, found), zone), rule);
}

function mapped({ map }: FullRule, text: string): string {
  if (map === undefined) return text;
  const same = Object.keys(map).find((key) => composed(key) === composed(text.trim()));
  for (const key of [text, text.trim(), same ?? '*', '*']) if (Object.hasOwn(map, key)) return map[key] ?? '';
  throw new FieldFault(`is ${quoted(text)}, which its map does not have; add it, or "*" for any other value`);
}

function typed({ type }: FullRule, text: string, zone: string | undefined): string {
  const form = fieldForms[type];
  try {
    const value = form.read(text, zone);
    if (value !== undefined) return value;
  } catch (error) {
    if (error instanceof Unmade) throw new FieldFault(`is ${quoted(text)}; ${error.message}`);
    throw error;
  }
  throw new FieldFault(`is ${quoted(text)}; it must be ${form.expected}`);
}

function cut(text: string | undefined, { cut: charactersMax }: FullRule): string | undefined {
  if (text === undefined || charactersMax === undefined || text.length <= charactersMax) return text;
  // By characters: one of two code units is not split.
  return Array.from(text).slice(0, charactersMax).join('');
}

const quotedCharactersMax = 60;

function quoted(text: string): string {
  return JSON.stringify(text.length > quotedCharactersMax ? `${text.slice(0, quotedCharactersMax)}…` : text);
}
