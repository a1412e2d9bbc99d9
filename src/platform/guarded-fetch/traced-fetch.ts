/** A request as a span of the trace around it, which the other side gets as headers. */
import { failSpan, traced, traceHeaders } from '../telemetry.ts';
import type { GuardedRequest, GuardedResponse } from './guarded-request.ts';

/** Sends the request in a span of its own. The span names host and port only: a path may be a secret. */
export function tracedFetch(
  send: (request: GuardedRequest) => Promise<GuardedResponse>,
  request: GuardedRequest,
): Promise<GuardedResponse> {
  const url = URL.parse(request.url);
  const attributes = {
    'http.request.method': request.method,
    'url.scheme': url?.protocol.slice(0, -1),
    'server.address': url?.hostname,
    'server.port': Number(url?.port || (url?.protocol === 'http:' ? 80 : 443)),
  };
  return traced(request.method, { kind: 'client', attributes }, async (span) => {
    const response = await send({ ...request, headers: { ...traceHeaders(), ...request.headers } });
    span.setAttribute('http.response.status_code', response.status);
    if (response.status >= 400) failSpan(span, String(response.status));
    return response;
  });
}
