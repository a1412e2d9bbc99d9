/** Makes the request that sends a document; the settings are compiled once. */
import {
  DataError,
  type DocumentKind,
  type DocumentOf,
  fileBytes,
  type HttpRequest,
  type Operation,
} from 'sourcing-bridge/connector';
import type { LookupSettings, RequestSettings } from './settings.ts';
import {
  type JsonTemplate,
  jsonTemplate,
  noCall,
  rootsOf,
  type Scope,
  textTemplate,
  urlTemplate,
} from './templates.ts';

interface Content {
  readonly body?: string | Uint8Array;
  /** The content type, unless the settings have one. */
  readonly type?: string;
}

export interface CompiledRequest {
  /** `method path`, and the readable part of the content. */
  describe(operation: Operation): { line: string; content: unknown };
  /** Throws DataError when the request cannot be made from this document. A promise where the body has several parts. */
  make(operation: Operation, signal: AbortSignal): HttpRequest | Promise<HttpRequest>;
}

/** Compiles a request of the settings. Throws PathError for a wrong template. */
export function compileRequest(
  kind: DocumentKind,
  settings: RequestSettings,
  idempotencyHeader: string | undefined,
): CompiledRequest {
  const roots = rootsOf(kind);
  const { method } = settings;
  const path = urlTemplate(roots, settings.path);
  const headers = Object.entries(settings.headers).map(([name, text]) => [name, textTemplate(roots, text)] as const);
  const content = compileBody(kind, method, settings.body);

  function headersOf(scope: Scope): Record<string, string> {
    const made: Record<string, string> = {};
    if (idempotencyHeader !== undefined) made[idempotencyHeader] = scope.call.idempotency_key ?? '';
    for (const [name, template] of headers) {
      const text = template(scope);
      if (text !== undefined) made[name.toLowerCase()] = text;
    }
    return made;
  }

  function requestOf(scope: Scope, { body, type }: Content, signal: AbortSignal): HttpRequest {
    const own = headersOf(scope);
    if (type !== undefined) own['content-type'] ??= type;
    return { method, path: path(scope), headers: own, body, safe: false, signal };
  }

  return {
    describe: (operation) => {
      const scope = scopeOf(operation);
      return { line: `${method} ${path(scope)}`, content: content.shown(scope) };
    },
    make: (operation, signal) => {
      const scope = scopeOf(operation);
      const made = content.make(scope, operation, signal);
      if (made instanceof Promise) return made.then((each) => requestOf(scope, each, signal));
      return requestOf(scope, made, signal);
    },
  };
}

/** Compiles the request that asks what the ERP holds for a document. Throws PathError for a wrong template. */
export function compileLookup(
  kind: DocumentKind,
  settings: LookupSettings,
): (document: DocumentOf<DocumentKind>, signal: AbortSignal) => HttpRequest {
  const roots = rootsOf(kind);
  const { method } = settings;
  const path = urlTemplate(roots, settings.path);
  const headers = Object.entries(settings.headers).map(([name, text]) => [name, textTemplate(roots, text)] as const);
  const json = settings.body && jsonTemplate(roots, settings.body.json);
  return (document, signal) => {
    const scope: Scope = { document, call: noCall };
    const made = headers.flatMap(([name, template]) => {
      const text = template(scope);
      return text === undefined ? [] : [[name, text] as const];
    });
    return {
      method,
      path: path(scope),
      headers: Object.fromEntries(made),
      ...(json ? { json: json(scope) } : {}),
      accept: settings.absent,
      safe: true,
      signal,
    };
  };
}

function scopeOf({ action, document, contentHash, idempotencyKey, reference, file }: Operation): Scope {
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

function compileBody(
  kind: DocumentKind,
  method: string,
  settings: RequestSettings['body'] = method === 'DELETE' ? 'none' : 'document',
): CompiledBody {
  if (settings === 'none') return noBody;
  if (settings === 'document')
    return kind === 'file'
      ? multipart(kind, { document: '{document}', file: { file: true } })
      : asJson(jsonTemplate(rootsOf(kind), '{document}'));
  if (settings === 'file')
    return {
      shown: () => undefined,
      make: async (_scope, operation, signal) => ({
        body: await bytesOf(operation, signal),
        type: 'application/octet-stream',
      }),
    };
  if ('json' in settings) return asJson(jsonTemplate(rootsOf(kind), settings.json));
  return multipart(kind, settings.multipart);
}

function asJson(template: JsonTemplate): CompiledBody {
  return {
    shown: template,
    // A template without a value is sent as null, which is still a body.
    make: (scope) => ({ body: JSON.stringify(template(scope) ?? null), type: 'application/json' }),
  };
}

function multipart(kind: DocumentKind, parts: Readonly<Record<string, unknown>>): CompiledBody {
  const roots = rootsOf(kind);
  const compiled = Object.entries(parts).map(([name, part]) => {
    if (isFilePart(part)) return { name, template: undefined };
    return { name, template: jsonTemplate(roots, part) };
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
