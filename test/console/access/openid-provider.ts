/** A real OpenID provider (the package oidc-provider) with three people, for tests. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';
import { closeAtEnd } from '../../harness/close-at-end.ts';

const people: Readonly<Record<string, Record<string, unknown>>> = {
  anna: { email: 'anna@example.com', email_verified: true, groups: ['buyers', 'bridge-operators'] },
  bert: { email: 'bert@example.com', email_verified: false, groups: ['bridge-readers'] },
  carl: { email: 'carl@example.com', email_verified: true, groups: ['buyers'] },
};

export const openIdClient = { client_id: 'bridge', client_secret: 'a-secret-of-the-bridge' } as const;

/** Starts it for a console at this URL; returns its issuer. It is closed after the file. */
export async function startOpenIdProvider(consoleUrl: string): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [{ ...openIdClient, redirect_uris: [`${consoleUrl}/login/openid/callback`] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: async () => ({ sub, ...people[sub] }) }),
    pkce: { required: () => true },
    cookies: { keys: ['a key of the provider'] },
  });
  const answer = provider.callback();
  server.on('request', (request, response) => void answer(request, response));
  return issuer;
}
