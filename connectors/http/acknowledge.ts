/**
 * Tells the ERP what became of a requisition, by the request of the settings. A repetition leaves what one call leaves,
 * as the settings say: a PUT or PATCH replaces what is at the URL of the requisition, and a POST carries the key of the
 * news, by which the ERP recognises it.
 */
import { type Acknowledgement, type Http, type HttpRequest, type Outcome, PathError } from 'sourcing-bridge/connector';
import type { AcknowledgeSettings } from './settings.ts';
import { jsonTemplate, newsRoots, noCall, type Scope, textTemplate, urlTemplate } from './templates.ts';

/** The body `news`, as a template. */
const wholeNews = {
  requisition: '{requisition}',
  status: '{status}',
  event: '{event}',
  reason: '{reason}',
  text: '{text}',
  idempotency_key: '{idempotency_key}',
};

/** Compiles the request. Throws PathError for a wrong template. */
function compileNews(settings: AcknowledgeSettings, idempotencyHeader: string | undefined) {
  const { method, body } = settings;
  const path = urlTemplate(newsRoots, settings.path);
  const headers = Object.entries(settings.headers).map(
    ([name, text]) => [name.toLowerCase(), textTemplate(newsRoots, text)] as const,
  );
  const json = templateOf(body);
  return (news: Acknowledgement, signal: AbortSignal): HttpRequest => {
    const { idempotencyKey, ...document } = news;
    const scope: Scope = { document, call: { ...noCall, idempotency_key: idempotencyKey } };
    const made = headers.flatMap(([name, template]) => {
      const text = template(scope);
      return text === undefined ? [] : [[name, text] as const];
    });
    const key = idempotencyHeader === undefined ? [] : [[idempotencyHeader.toLowerCase(), idempotencyKey] as const];
    return {
      method,
      path: path(scope),
      headers: Object.fromEntries([...key, ...made]),
      ...(json ? { json: json(scope) ?? null } : {}),
      safe: false,
      signal,
    };
  };
}

function templateOf(body: AcknowledgeSettings['body']) {
  if (body === 'none') return undefined;
  return jsonTemplate(newsRoots, body === 'news' ? wholeNews : body.json);
}

/** Tells one piece of news. Throws ConnectorErrors: DataError for a requisition that the ERP does not have (404). */
export function compileAcknowledge(settings: AcknowledgeSettings, idempotencyHeader: string | undefined) {
  const requestOf = compileNews(settings, idempotencyHeader);
  return async (http: Http, news: Acknowledgement, signal: AbortSignal): Promise<Outcome> => {
    await http.request(requestOf(news, signal));
    return { status: 'updated', reference: news.requisition };
  };
}

/** What is wrong with the settings: each check throws PathError. */
export function acknowledgeFaults(settings: AcknowledgeSettings, idempotencyHeader: string | undefined) {
  const { method, path, headers, body } = settings;
  const inBody = body === 'none' ? '' : JSON.stringify(body === 'news' ? wholeNews : body.json);
  const names = (name: string, texts: readonly string[]) =>
    texts.some((text) => new RegExp(`\\{\\s*${name}[\\s}]`).test(text));
  return [
    { path: ['path'], run: () => urlTemplate(newsRoots, path) },
    ...Object.entries(headers).map(([name, text]) => ({
      path: ['headers', name],
      run: () => textTemplate(newsRoots, text),
    })),
    ...(typeof body === 'object' ? [{ path: ['body', 'json'], run: () => jsonTemplate(newsRoots, body.json) }] : []),
    {
      path: ['path'],
      run: () => {
        if (method !== 'POST' && !names('requisition', [path]))
          throw new PathError(
            `must name the requisition, as {requisition}: a ${method} to one path would replace the news of another`,
          );
        if (!names('requisition', [path, inBody]))
          throw new PathError('or the body must name the requisition, as {requisition}');
      },
    },
    {
      path: [],
      run: () => {
        if (method === 'POST' && idempotencyHeader === undefined)
          if (!names('idempotency_key', [path, inBody, ...Object.values(headers)]))
            throw new PathError(
              'needs {idempotency_key} in its path, headers or body, or idempotency_header: a call that was cut off is made again, and the ERP has to see that it is the same',
            );
      },
    },
  ];
}
