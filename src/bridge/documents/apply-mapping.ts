/** Adds the fields of a flow's mapping to documents and their lines. */
import { type Document, type DocumentKind, documentKinds } from '#connector/documents.ts';
import { type CompiledField, compileField, FieldFault } from './compile-field.ts';
import { rejected } from './made-document.ts';
import type { MappingRule } from './mapping-rule.ts';
import type { MappingSettings } from './mapping-settings.ts';
import { compareText } from './text-order.ts';

/** Returns the document with its fields. Throws `Unmade` that names flow, kind, field and line, and says what to do. */
export type ApplyMapping = (document: Document) => Document;

/** Compiles a mapping; `zone` is that of the flow's days. Throws TypeError for settings that `mappingSettings` has not checked. */
export function compileMapping(flow: string, mapping: MappingSettings, zone?: string): ApplyMapping {
  const compile = (kind: DocumentKind, rules: Readonly<Record<string, MappingRule>>, inLine: boolean) =>
    compileAll(kind, rules, { inLine, zone });
  const byKind = new Map(
    documentKinds.flatMap((kind) => {
      const rules = mapping[kind];
      if (!rules) return [];
      return [[kind, { fields: compile(kind, rules.fields, false), lines: compile(kind, rules.lines, true) }]];
    }),
  );
  return (document) => {
    const compiled = byKind.get(document.kind);
    if (!compiled) return document;
    const make = (fields: readonly CompiledField[], line: unknown) => makeFields(flow, document, fields, line);
    const fields = compiled.fields.length > 0 ? { fields: make(compiled.fields, undefined) } : {};
    if (!('lines' in document) || compiled.lines.length === 0) return { ...document, ...fields };
    const lines = document.lines.map((line) => ({ ...line, fields: make(compiled.lines, line) }));
    return { ...document, lines, ...fields } as Document;
  };
}

/** In the order of their names, so that a new order of the fields in the configuration changes no document. */
function compileAll(
  kind: DocumentKind,
  rules: Readonly<Record<string, MappingRule>>,
  how: { inLine: boolean; zone: string | undefined },
): CompiledField[] {
  const compiled = Object.entries(rules).map(([name, rule]) => {
    const field = compileField(kind, name, rule, how);
    if ('fault' in field) throw new TypeError(`the field "${name}" of ${kind} was not checked: ${field.fault}`);
    return field;
  });
  return compiled.sort((a, b) => compareText(a.name, b.name));
}

function makeFields(flow: string, document: Document, fields: readonly CompiledField[], line: unknown) {
  const made: [string, string][] = [];
  for (const { name, make } of fields) {
    try {
      const value = make(document, line);
      if (value !== undefined) made.push([name, value]);
    } catch (error) {
      if (!(error instanceof FieldFault)) throw error;
      const of = line === undefined ? '' : ` of ${lineName(line as Line)}`;
      throw rejected(`flow "${flow}", ${document.kind}: the field "${name}"${of} ${error.message}`);
    }
  }
  // Unlike an assignment, this makes an own member of any name, also of __proto__.
  return Object.fromEntries(made);
}

type Line = { lot: string } | { question: { id: string; identifier?: string } };

function lineName(line: Line): string {
  return 'lot' in line ? `lot "${line.lot}"` : `question ${line.question.identifier ?? line.question.id}`;
}
