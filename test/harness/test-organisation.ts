import { type HttpAnswer, request } from './request.ts';

export interface TestOrganisation {
  readonly id: string;
  /** An API key with all scopes. */
  readonly key: string;
  /** Sends a request with that key. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<HttpAnswer>;
}

/** Creates an organisation in a running service. It may send webhooks to localhost, and has no rate limits. */
export async function createOrganisation(baseUrl: string, adminToken: string): Promise<TestOrganisation> {
  const operator = (method: string, path: string, body: unknown) =>
    request(method, `${baseUrl}/admin/organisations${path}`, { key: adminToken, body });
  const { id } = (await operator('POST', '', { name: 'Test' })).body;
  await operator('PUT', `/${id}/webhook-domains`, { domains: ['localhost'] });
  await operator('PUT', `/${id}/allowed-networks`, { cidrs: ['127.0.0.0/8', '::1/128'] });
  await operator('PUT', `/${id}/limits`, { enabled: false });
  const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'];
  const { key } = (await operator('POST', `/${id}/api-keys`, { name: 'test', scopes })).body;
  return {
    id,
    key,
    call: (method, path, body, headers) =>
      request(method, baseUrl + path, {
        key,
        ...(body === undefined ? {} : { body }),
        ...(headers ? { headers } : {}),
      }),
  };
}
