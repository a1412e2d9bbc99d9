/**
 * Tells the ERP what became of a requisition, by the request of the settings. A repetition leaves what one call leaves,
 * as the settings say: a PUT or PATCH replaces what is at the URL of the requisition, and a POST carries the key of the
 * news, by which the ERP recognises it.
 */
import { type Acknowledgement, type Http, type HttpRequest, type Outcome, PathError } from 'sourcing-bridge/connector';
import { compileHead } from './requests.ts';
import type { AcknowledgeSettings } from './settings.ts';
import { at, jsonTemplate, newsRoots, type Scope } from './templates.ts';

/** The body `news`, as a template. */
const wholeNews = {
  requisition: '{requisition}',
  status: '{status}',
  event: '{event}',
  reason: '{reason}',
  text: '{text}',
  idempotency_key: '{idempotency_key}',
};

/** Compiles the request. Throws PlacedFault for a wrong template. */
function compileNews(settings: AcknowledgeSettings, idempotencyHeader: string | undefined) {
  const { method, body } = settings;
  const head = compileHead(newsRoots, settings);
  const template = body === 'news' ? wholeNews : body;
  const json =
    template === 'none'
      ? undefined
      : at('body', () => at('json', () => jsonTemplate(newsRoots, 'json' in template ? template.json : template)));
  return (news: Acknowledgement, signal: AbortSignal): HttpRequest => {
    const { idempotencyKey, ...document } = news;
    const scope: Scope = { document, call: { idempotency_key: idempotencyKey } };
    const key = idempotencyHeader === undefined ? {} : { [idempotencyHeader.toLowerCase()]: idempotencyKey };
    const headers = { ...key, ...head.headers(scope) };
    return { method, path: head.path(scope), headers, ...(json && { json: json(scope) ?? null }), safe: false, signal };
  };
}

/** Tells one piece of news. Throws ConnectorErrors: DataError for a requisition that the ERP does not have (404). */
export function compileAcknowledge(settings: AcknowledgeSettings, idempotencyHeader: string | undefined) {
  const requestOf = compileNews(settings, idempotencyHeader);
  return async (http: Http, news: Acknowledgement, signal: AbortSignal): Promise<Outcome> => {
    await http.request(requestOf(news, signal));
    return { status: 'updated', reference: news.requisition };
  };
}

/** Throws PathError for what is wrong with the settings. */
export function checkAcknowledge(settings: AcknowledgeSettings, idempotencyHeader: string | undefined): void {
  const { method, path, headers, body } = settings;
  compileNews(settings, idempotencyHeader);
  const inBody = body === 'none' ? '' : JSON.stringify(body === 'news' ? wholeNews : body.json);
  const names = (name: string, texts: readonly string[]) =>
    texts.some((text) => new RegExp(`\\{\\s*${name}[\\s}]`).test(text));
  at('path', () => {
    if (method !== 'POST' && !names('requisition', [path]))
      throw new PathError(
        `must name the requisition, as {requisition}: a ${method} to one path would replace the news of another`,
      );
    if (!names('requisition', [path, inBody]))
      throw new PathError('or the body must name the requisition, as {requisition}');
  });
  if (method !== 'POST' || idempotencyHeader !== undefined) return;
  if (!names('idempotency_key', [path, inBody, ...Object.values(headers)]))
    throw new PathError(
      'needs {idempotency_key} in its path, headers or body, or idempotency_header: a call that was cut off is made again, and the ERP has to see that it is the same',
    );
}
