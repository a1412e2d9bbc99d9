/**
 * Configuration: a YAML file, overridden by environment variables, checked by one schema. Everything wrong is named at
 * once, with where it stands and what it must be; values are never repeated, as they may be secrets.
 */
import { existsSync, readFileSync } from 'node:fs';
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { AppError, type Issue } from './errors.ts';
import { issuesOf } from './input.ts';

export interface ConfigurationSource<Schema extends z.ZodType> {
  schema: Schema;
  /** The YAML file; `required` when the user named it. */
  file: { path: string; required: boolean };
  env: Readonly<Record<string, string | undefined>>;
  /** Well-known variables and the setting each one overrides: `{ DATABASE_URL: 'database.url' }`. */
  variables: Readonly<Record<string, string>>;
}

/** Any other setting is overridden by this prefix and its path in capitals: `SOURCING__SERVICE__PORT`. */
export const overridePrefix = 'SOURCING__';

/** Reads, overrides and checks; throws AppError `invalid` whose message has one line for each wrong setting. */
export function loadConfiguration<Schema extends z.ZodType>(source: ConfigurationSource<Schema>): z.output<Schema> {
  const issues: Issue[] = [];
  const { values, lineOf } = readYaml(source.file, issues);
  const settings = substitute(values, [], source.env, issues) as Record<string, unknown>;
  const setBy = applyOverrides(settings, source, issues);
  const parsed = source.schema.safeParse(settings, {
    error: (issue) => (issue.input === undefined ? 'is missing' : undefined),
  });
  if (parsed.success && issues.length === 0) return parsed.data;
  for (const issue of parsed.success ? [] : issuesOf(parsed.error.issues)) {
    const known = issue.message === 'is not a known field' ? 'is not a known setting' : issue.message;
    issues.push({ path: issue.path, message: known });
  }
  const lines = issues.map(({ path, message }) => {
    const variable = setBy.get(path);
    const line = lineOf(path);
    const place = variable ? ` (set by ${variable})` : line ? ` (${source.file.path}, line ${line})` : '';
    return `  ${path || 'the configuration'} ${message}${place}`;
  });
  throw new AppError('invalid', `The configuration is not valid:\n${lines.join('\n')}`, { issues });
}

/** The JSON Schema of the file, for editors. */
export function configurationJsonSchema(schema: z.ZodType): object {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
}

function readYaml(
  file: { path: string; required: boolean },
  issues: Issue[],
): { values: unknown; lineOf: (path: string) => number | undefined } {
  const none = { values: {}, lineOf: () => undefined };
  if (!existsSync(file.path)) {
    if (file.required) issues.push({ path: '', message: `file ${file.path} does not exist` });
    return none;
  }
  const lines = new LineCounter();
  const document = parseDocument(readFileSync(file.path, 'utf8'), { lineCounter: lines, prettyErrors: false });
  for (const error of document.errors)
    issues.push({
      path: '',
      message: `is not valid YAML at ${file.path}, line ${error.linePos?.[0].line ?? lines.linePos(error.pos[0]).line}: ${error.code}`,
    });
  if (document.errors.length > 0) return none;
  if (
    document.contents !== null &&
    !isMap(document.contents) &&
    !(isScalar(document.contents) && document.contents.value === null)
  ) {
    issues.push({ path: '', message: `file ${file.path} must hold settings, like "service:"` });
    return none;
  }
  return {
    values: document.toJS() ?? {},
    lineOf: (path) => {
      const parts = path
        .split(/[.[\]]+/)
        .filter(Boolean)
        .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
      for (; parts.length > 0; parts.pop()) {
        const node = document.getIn(parts, true) as { range?: [number, number, number] } | undefined;
        if (node?.range) return lines.linePos(node.range[0]).line;
      }
      return undefined;
    },
  };
}

/** Replaces `${NAME}` in texts by the environment's value, so that secrets need not stand in the file. */
function substitute(
  value: unknown,
  path: readonly (string | number)[],
  env: ConfigurationSource<z.ZodType>['env'],
  issues: Issue[],
): unknown {
  if (typeof value === 'string')
    return value.replaceAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_whole, name: string) => {
      const found = env[name];
      if (found === undefined)
        issues.push({ path: path.join('.'), message: `needs the environment variable ${name}, which is not set` });
      return found ?? '';
    });
  if (Array.isArray(value)) return value.map((item, index) => substitute(item, [...path, index], env, issues));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, substitute(item, [...path, key], env, issues)]),
    );
  return value;
}

/** Gives which variable set which path. */
function applyOverrides(
  settings: Record<string, unknown>,
  { env, variables }: Pick<ConfigurationSource<z.ZodType>, 'env' | 'variables'>,
  issues: Issue[],
): Map<string, string> {
  const setBy = new Map<string, string>();
  for (const [variable, text] of Object.entries(env)) {
    const generic = variable.startsWith(overridePrefix)
      ? variable.slice(overridePrefix.length).toLowerCase().split('__').join('.')
      : undefined;
    const path = variables[variable] ?? generic;
    if (path === undefined || text === undefined || (text === '' && !generic)) continue;
    const parts = path.split('.');
    let at: unknown = settings;
    for (const part of parts.slice(0, -1)) {
      const holder = at as Record<string, unknown>;
      holder[part] ??= {};
      at = holder[part];
      if (typeof at !== 'object') break;
    }
    const last = parts.at(-1);
    if (typeof at !== 'object' || at === null || last === undefined || last === '') {
      issues.push({ path, message: `cannot be set by ${variable}: there is no such place` });
      continue;
    }
    // A well-known variable is text; a generic one may be a number, a list, true or false, written as in YAML.
    (at as Record<string, unknown>)[last] = generic ? parseDocument(text).toJS() : text;
    setBy.set(path, variable);
  }
  return setBy;
}
