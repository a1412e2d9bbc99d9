/**
 * Configuration: a YAML file, overridden by environment variables, checked by one schema. Every wrong setting is named
 * at once, with its place and what it must be. Values are never repeated, as they may be secrets.
 */
import { readFileSync } from 'node:fs';
import { isMap, isNode, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument } from 'yaml';
import { z } from 'zod';
import { AppError, errorText, hasErrorCode } from './errors.ts';
import { pathText, type RawIssue, rawIssuesOf, safeParseSettings, settingAt } from './input.ts';

export interface ConfigurationSource<Schema extends z.ZodType> {
  schema: Schema;
  /** The YAML file; `required` when the user named it. */
  file: { path: string; required: boolean };
  env: Environment;
  /**
   * Well-known variables and the setting that each overrides: `{ DATABASE_URL: 'database_url' }`. They hold plain text.
   */
  variables: Readonly<Record<string, string>>;
  /**
   * At such a path a variable that is not set is no fault: its text says so instead, whatever form the setting must have.
   * For commands that do not use it.
   */
  mayLack?: (path: Path) => boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;
export type Path = readonly (string | number)[];

/**
 * A variable of this prefix and a setting's path in capitals overrides the setting: `SOURCING__SERVICE__PORT`, and in a
 * list by position: `SOURCING__BRIDGE__SOURCES__0__API_KEY`. Numbers, true, false, null, and texts that begin with `[`,
 * `{` or a quotation mark are read as YAML; everything else is plain text. Such a variable beats a well-known one.
 */
export const overridePrefix = 'SOURCING__';

export interface LoadedConfiguration<Settings> {
  readonly settings: Settings;
  /** Every text that a variable of the environment has given. */
  readonly fromEnvironment: readonly string[];
}

/** Reads, overrides and checks. Throws an AppError `invalid` whose message has one line for each wrong setting. */
export function loadConfiguration<Schema extends z.ZodType>(
  source: ConfigurationSource<Schema>,
): LoadedConfiguration<z.output<Schema>> {
  const faults: RawIssue[] = [];
  const given = new Set<string>();
  const file = readYaml(source.file, faults);
  const settings = substitute(file.values, [], { ...source, given }, faults) as Record<string, unknown>;
  const overrides = applyOverrides(settings, { ...source, given }, faults);
  const parsed = safeParseSettings(source.schema, settings, isLackingText);
  if (parsed.success && faults.length === 0) return { settings: parsed.data, fromEnvironment: [...given] };
  for (const { path, message } of parsed.success ? [] : rawIssuesOf(parsed.error.issues)) {
    // A setting that could not be read needs no second line for its missing value.
    if (faults.some((fault) => pathText(fault.path) === pathText(path))) continue;
    if (isLackingText(settingAt(settings, path))) continue;
    faults.push({ path, message: message === 'is not a known field' ? 'is not a known setting' : message });
  }
  const issues = faults.map(({ path, message }) => ({ path: pathText(path), message }));
  const lines = faults.map(({ path, message }, index) => {
    const variable = setBy(overrides, path);
    const line = file.lineOf(path);
    const quoted = variable?.startsWith(overridePrefix) && message === 'must be a string' ? '; "…" makes it text' : '';
    const place = variable ? ` (set by ${variable}${quoted})` : line ? ` (${source.file.path}, line ${line})` : '';
    return `  ${issues[index]?.path || 'the configuration'} ${message}${place}`;
  });
  throw new AppError('invalid', `The configuration is not valid:\n${lines.join('\n')}`, { issues });
}

/** The JSON Schema of the file, for editors. A text may always be `${NAME}` instead. */
export function configurationJsonSchema(schema: z.ZodType): object {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      delete jsonSchema.format;
      if (jsonSchema.pattern !== undefined) jsonSchema.pattern += '|\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}';
    },
  });
}

interface YamlFile {
  values: unknown;
  /** The line of a setting, or of the nearest one around it; undefined when the file holds no part of its path. */
  lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

function readYaml(file: { path: string; required: boolean }, faults: RawIssue[]): YamlFile {
  const empty: YamlFile = { values: {}, lineOf: () => undefined };
  const refuse = (message: string): YamlFile => {
    faults.push({ path: [], message });
    return empty;
  };
  let text: string;
  try {
    text = readFileSync(file.path, 'utf8');
  } catch (error) {
    const missing = hasErrorCode(error, 'ENOENT');
    if (missing && !file.required) return empty;
    return refuse(missing ? `file ${file.path} does not exist` : `file cannot be read: ${errorText(error)}`);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  // The parser's messages may quote the file, which may hold secrets: only the kind of the error is shown.
  const places = document.errors.map(({ code, pos }) => ({ line: lines.linePos(pos[0]).line, what: plainCode(code) }));
  for (const [index, { line, what }] of places.entries()) {
    const variable = unquotedVariable(text.split('\n')[line - 1] ?? '');
    if (variable === undefined && places.slice(0, index).some((place) => place.line === line)) continue;
    const why = variable === undefined ? what : `inside { } and [ ] a variable needs quotation marks: "${variable}"`;
    refuse(`is not valid YAML: ${file.path}, line ${line} (${why})`);
    // The parser has lost its way there: what it says of later lines helps nobody.
    if (variable !== undefined) break;
  }
  if (document.errors.length > 0) return empty;
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) return empty;
  if (!isMap(contents)) return refuse(`file ${file.path} must hold settings, like "service:"`);
  try {
    return { values: document.toJS(), lineOf: (path) => lineOf(contents, path, lines) };
  } catch {
    return refuse(`is not valid YAML: ${file.path} has an alias (*name) that has no anchor (&name), or too many`);
  }
}

/** `${NAME}` in a line, if it stands inside braces or brackets without quotation marks. */
function unquotedVariable(line: string): string | undefined {
  const [, variable] = /[{[,:]\s*(\$\{[A-Za-z_][A-Za-z0-9_]*\})[^'"]*[}\],]/.exec(line) ?? [];
  return variable;
}

/** What was expected where the parser reports such an error. */
const expectations: Readonly<Record<string, string>> = {
  BAD_ALIAS: 'a text that begins with * or & needs quotation marks',
  BAD_DQ_ESCAPE: "inside double quotation marks a backslash begins an escape: use '…' for a text with a backslash",
  BAD_INDENT: 'it must be indented like the lines beside it, or a closing bracket is missing before it',
  BAD_SCALAR_START: 'a text that begins with @, ` or % needs quotation marks',
  BLOCK_AS_IMPLICIT_KEY:
    'a value with a colon and a space needs quotation marks, and a nested setting a line of its own',
  DUPLICATE_KEY: 'each setting must stand once: this one stood before',
  MISSING_CHAR: 'a colon, a comma, a closing bracket or a quotation mark is missing',
  MULTILINE_IMPLICIT_KEY: 'a colon is expected after the name of a setting, on its line',
  MULTIPLE_DOCS: 'one document is expected, without ---',
  TAB_AS_INDENT: 'spaces are expected, not tabs',
  UNEXPECTED_TOKEN: '"name: value" or "- value" is expected',
};

/** What was expected, or the kind of the error: `BAD_DIRECTIVE` as "bad directive". */
function plainCode(code: string): string {
  return expectations[code] ?? code.toLowerCase().replaceAll('_', ' ');
}

function lineOf(root: Node, path: readonly PropertyKey[], lines: LineCounter): number | undefined {
  let node: Node | null | undefined = root;
  let position: number | undefined;
  for (const part of path) {
    if (isMap(node)) {
      const pair: Pair | undefined = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(part));
      if (!pair) break;
      if (isScalar(pair.key)) position = pair.key.range?.[0];
      node = isNode(pair.value) ? pair.value : undefined;
    } else if (isSeq(node)) {
      const item: unknown = node.items[Number(part)];
      if (!isNode(item)) break;
      position = item.range?.[0];
      node = item;
    } else break;
  }
  return position === undefined ? undefined : lines.linePos(position).line;
}

const lackingText = (name: string) => `[${name} is not set here]`;

/** Whether a setting holds a variable that is not set, and need not be (`mayLack`). */
export function isLackingText(setting: unknown): boolean {
  return typeof setting === 'string' && /\[[A-Za-z_][A-Za-z0-9_]* is not set here\]/.test(setting);
}

/** Replaces `${NAME}` in texts by the environment variable, so that secrets can stay out of the file. */
function substitute(
  value: unknown,
  path: Path,
  source: Pick<ConfigurationSource<z.ZodType>, 'env' | 'mayLack'> & { given: Set<string> },
  faults: RawIssue[],
): unknown {
  const { env, mayLack, given } = source;
  if (typeof value === 'string')
    return value.replaceAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_whole, name: string) => {
      const found = Object.hasOwn(env, name) ? env[name] : undefined;
      if (found === undefined && mayLack?.(path)) return lackingText(name);
      if (found === undefined)
        faults.push({ path, message: `needs the environment variable ${name}, which is not set` });
      if (found) given.add(found);
      return found ?? '';
    });
  if (Array.isArray(value)) return value.map((item, index) => substitute(item, [...path, index], source, faults));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, substitute(item, [...path, key], source, faults)]),
    );
  return value;
}

/** Which variable has set which path. */
type Overrides = { variable: string; path: Path }[];

/** An empty variable counts as not set, as in an environment of Docker Compose that leaves a variable out. */
function applyOverrides(
  settings: Record<string, unknown>,
  { env, variables, given }: Pick<ConfigurationSource<z.ZodType>, 'env' | 'variables'> & { given: Set<string> },
  faults: RawIssue[],
): Overrides {
  const overrides: Overrides = [];
  const apply = (variable: string, path: Path, value: unknown) => {
    overrides.push({ variable, path });
    for (const text of textsIn(value)) given.add(text);
    if (!setAt(settings, path, value)) faults.push({ path, message: 'is not a place that can be set' });
  };
  for (const [variable, setting] of Object.entries(variables))
    if (Object.hasOwn(env, variable) && env[variable]) apply(variable, setting.split('.'), env[variable]);
  for (const [variable, text] of Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!variable.startsWith(overridePrefix) || !text) continue;
    const path = variable.slice(overridePrefix.length).toLowerCase().split('__').map(asIndex);
    const read = readOverride(text);
    if ('value' in read) apply(variable, path, read.value);
    else {
      overrides.push({ variable, path });
      faults.push({ path, message: `is not valid YAML: ${read.fault}` });
    }
  }
  return overrides;
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return value === '' ? [] : [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

function asIndex(part: string): string | number {
  return /^\d{1,4}$/.test(part) ? Number(part) : part;
}

function readOverride(text: string): { value: unknown } | { fault: string } {
  if (!/^\s*(["'[{]|(true|false|null)\s*$|[-+.\d])/.test(text)) return { value: text };
  const document = parseDocument(text, { prettyErrors: false });
  // A text that only begins like a number (a date, an address) stays text.
  if (!/^\s*["'[{]/.test(text) && (document.errors.length > 0 || !isScalar(document.contents))) return { value: text };
  const [error] = document.errors;
  return error ? { fault: plainCode(error.code) } : { value: document.toJS() as unknown };
}

/**
 * Sets the value and makes the missing objects on its path. Returns false when another kind of value is in the way. A
 * list grows by one entry at most.
 */
function setAt(settings: Record<string, unknown>, path: Path, value: unknown): boolean {
  let holder: unknown = settings;
  for (const [index, part] of path.entries()) {
    if (typeof holder !== 'object' || holder === null || part === '') return false;
    if (Array.isArray(holder) ? typeof part !== 'number' || part > holder.length : typeof part === 'number')
      return false;
    const own = Object.getOwnPropertyDescriptor(holder, part)?.value as unknown;
    const next = index === path.length - 1 ? value : (own ?? (typeof path[index + 1] === 'number' ? [] : {}));
    // Defined, not assigned: then a name like __proto__ is an ordinary name.
    Object.defineProperty(holder, part, { value: next, enumerable: true, configurable: true, writable: true });
    holder = next;
  }
  return true;
}

/**
 * The variable that set this path, a part of it, or an object that holds it. Of several the nearest one counts, and of
 * equally near ones the later.
 */
function setBy(overrides: Overrides, path: readonly PropertyKey[]): string | undefined {
  const shared = ({ path: other }: { path: Path }) => Math.min(other.length, path.length);
  const related = overrides.filter(
    (override) =>
      shared(override) > 0 &&
      override.path.slice(0, shared(override)).every((part, index) => String(path[index]) === String(part)),
  );
  const distance = (override: { path: Path }) => Math.abs(override.path.length - path.length);
  return related.toSorted((a, b) => distance(a) - distance(b) || related.indexOf(b) - related.indexOf(a))[0]?.variable;
}
