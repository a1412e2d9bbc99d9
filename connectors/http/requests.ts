/** Makes the request that sends a document; the settings are compiled once. */
import {
  DataError,
  type DocumentKind,
  fileBytes,
  type HttpRequest,
  type Operation,
  type Roots,
} from 'sourcing-bridge/connector';
import type { RequestSettings, SearchSettings } from './settings.ts';
import { at, type JsonTemplate, jsonTemplate, rootsOf, type Scope, textTemplate, urlTemplate } from './templates.ts';

interface Content {
  readonly body?: string | Uint8Array;
  /** The content type, unless the settings have one. */
  readonly type?: string;
}

export interface CompiledRequest {
  /** `method path`, and the readable part of the content. */
  describe(scope: Scope): { line: string; content: unknown };
  /** Throws DataError when the request cannot be made from this document. */
  make(scope: Scope, operation: Operation, signal: AbortSignal): Promise<HttpRequest>;
}

/** Compiles a request of the settings, for the roots of `kind`. Throws PlacedFault for a wrong template. */
export function compileRequest(
  kind: DocumentKind,
  settings: RequestSettings,
  { roots = rootsOf(kind), idempotencyHeader }: { roots?: Roots; idempotencyHeader?: string | undefined } = {},
): CompiledRequest {
  const { method } = settings;
  const head = compileHead(roots, settings);
  const content = at('body', () => compileBody(kind, roots, settings));

  return {
    describe: (scope) => ({ line: `${method} ${head.path(scope)}`, content: content.shown(scope) }),
    make: async (scope, operation, signal) => {
      const { body, type } = await content.make(scope, operation, signal);
      const key = idempotencyHeader === undefined ? {} : { [idempotencyHeader]: scope.call?.idempotency_key ?? '' };
      const headers: Record<string, string> = { ...key, ...head.headers(scope) };
      if (type !== undefined) headers['content-type'] ??= type;
      return { method, path: head.path(scope), headers, body, safe: false, signal };
    },
  };
}

/** Compiles path and headers of a request. A header without a value is left out. Throws PlacedFault. */
export function compileHead(roots: Roots, { path, headers }: Pick<RequestSettings, 'path' | 'headers'>) {
  const texts = Object.entries(headers).map(
    ([name, text]) => [name.toLowerCase(), at('headers', () => at(name, () => textTemplate(roots, text)))] as const,
  );
  return {
    path: at('path', () => urlTemplate(roots, path)),
    headers: (scope: Scope): Record<string, string> => {
      const made: Record<string, string> = {};
      for (const [name, template] of texts) {
        const text = template(scope);
        if (text !== undefined) made[name] = text;
      }
      return made;
    },
  };
}

/** Compiles a request that asks what the ERP holds. Throws PlacedFault for a wrong template. */
export function compileQuestion(
  roots: Roots,
  { method, path, headers, body, absent }: SearchSettings,
): (scope: Scope, signal: AbortSignal) => HttpRequest {
  const head = compileHead(roots, { path, headers });
  const json = body && at('body', () => at('json', () => jsonTemplate(roots, body.json)));
  return (scope, signal) => ({
    method,
    path: head.path(scope),
    headers: head.headers(scope),
    ...(json ? { json: json(scope) } : {}),
    accept: absent,
    safe: true,
    signal,
  });
}

/** What fills the templates of an operation's request. */
export function scopeOf({ action, document, contentHash, idempotencyKey, reference, file }: Operation): Scope {
  return {
    document,
    call: {
      action,
      content_hash: contentHash,
      idempotency_key: idempotencyKey,
      reference: reference === '' ? undefined : reference,
      file_name: file?.name,
    },
  };
}

interface CompiledBody {
  /** The readable part of it. */
  shown(scope: Scope): unknown;
  make(scope: Scope, operation: Operation, signal: AbortSignal): Content | Promise<Content>;
}

const noBody: CompiledBody = { shown: () => undefined, make: () => ({}) };

function compileBody(kind: DocumentKind, roots: Roots, { method, body }: RequestSettings): CompiledBody {
  const settings = body ?? (method === 'DELETE' ? 'none' : 'document');
  if (settings === 'none') return noBody;
  if (settings === 'document')
    return kind === 'file'
      ? multipart(roots, { document: '{document}', file: { file: true } })
      : asJson(jsonTemplate(roots, '{document}'));
  if (settings === 'file')
    return {
      shown: () => undefined,
      make: async (_scope, operation, signal) => ({
        body: await bytesOf(operation, signal),
        type: 'application/octet-stream',
      }),
    };
  if ('json' in settings) return asJson(at('json', () => jsonTemplate(roots, settings.json)));
  return at('multipart', () => multipart(roots, settings.multipart));
}

function asJson(template: JsonTemplate): CompiledBody {
  return {
    shown: template,
    // A template without a value is sent as null, which is still a body.
    make: (scope) => ({ body: JSON.stringify(template(scope) ?? null), type: 'application/json' }),
  };
}

function multipart(roots: Roots, parts: Readonly<Record<string, unknown>>): CompiledBody {
  const compiled = Object.entries(parts).map(([name, part]) => {
    if (isFilePart(part)) return { name, template: undefined };
    return { name, template: at(name, () => jsonTemplate(roots, part)) };
  });
  const texts = (scope: Scope) =>
    compiled.flatMap(({ name, template }) => {
      const value = template?.(scope);
      return value === undefined ? [] : [{ name, value }];
    });
  return {
    shown: (scope) => Object.fromEntries(texts(scope).map(({ name, value }) => [name, value])),
    make: async (scope, operation, signal) => {
      const form = new FormData();
      for (const { name, value } of texts(scope))
        if (typeof value === 'string') form.append(name, value);
        else form.append(name, new Blob([JSON.stringify(value)], { type: 'application/json' }));
      // A withdrawn file has no bytes.
      for (const { name } of compiled.filter(({ template }) => template === undefined))
        if (operation.action !== 'cancel')
          form.append(name, new Blob([await bytesOf(operation, signal)]), operation.file?.name ?? 'file');
      const encoded = new Response(form);
      const type = encoded.headers.get('content-type') ?? 'multipart/form-data';
      return { body: new Uint8Array(await encoded.arrayBuffer()), type };
    },
  };
}

/** Whether a multipart part is `{ file: true }`. */
export function isFilePart(part: unknown): boolean {
  return typeof part === 'object' && part !== null && 'file' in part && part.file === true;
}

async function bytesOf(operation: Operation, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await fileBytes(operation, signal);
  if (!bytes) throw new DataError('the body needs the bytes of a file, and this document has none');
  return new Uint8Array(bytes);
}
