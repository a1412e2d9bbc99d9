/** The calls that make what a benchmark needs in a service; what is measured goes by other ways. */
import { z } from 'zod';
import type { Installation } from '#cli/installation.ts';

/** Gives the answer's body; rejects unless it was answered with 2xx. */
export async function call(url: string, key: string, method: string, body?: object): Promise<unknown> {
  const answer = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${url}: ${answer.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** The certificates of the installation's local authority: a benchmark configures none of its own. */
export function localCertificates({ certificates }: Installation) {
  if (!certificates) throw new Error('The installation has no local authority.');
  return certificates;
}

/** An organisation that may send webhooks to localhost, without rate limits, and a key of it with these scopes. */
export async function createOrganisation(
  baseUrl: string,
  adminToken: string,
  scopes: readonly string[],
): Promise<{ organisation: string; key: string }> {
  const admin = (method: string, path: string, body: object) =>
    call(`${baseUrl}/admin/organisations${path}`, adminToken, method, body);
  const { id } = z.looseObject({ id: z.string() }).parse(await admin('POST', '', { name: 'Bench' }));
  await admin('PUT', `/${id}/webhook-domains`, { domains: ['localhost'] });
  await admin('PUT', `/${id}/allowed-networks`, { cidrs: ['127.0.0.0/8', '::1/128'] });
  await admin('PUT', `/${id}/limits`, { enabled: false });
  const made = await admin('POST', `/${id}/api-keys`, { name: 'bench', scopes });
  return { organisation: id, key: z.looseObject({ key: z.string() }).parse(made).key };
}
