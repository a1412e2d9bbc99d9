/**
 * The login at SAP: HTTP Basic, OAuth client credentials or a client certificate, and in each case a session with a
 * CSRF token of the service, without which SAP refuses every change. One is fetched for all requests that wait for it; SAP's
 * refusal of it (403 with `x-csrf-token: Required`) comes before anything is done, so the request is sent again once.
 */
import {
  AuthError,
  basicAuth,
  type Clock,
  ConfigError,
  clientCredentials,
  type HttpAuth,
  type HttpResponse,
  type SignedRequest,
  sessionAuth,
} from 'sourcing-bridge/connector';
import { serviceIn } from './protocols.ts';
import type { Settings } from './settings.ts';

/** `rootOf` returns the path of a service's root, which answers with a token: a proxy may hold one for each service. */
export function sapLogin(settings: Settings, rootOf: (service: string) => string, clock: Clock): HttpAuth {
  const own = ownLogin(settings, clock);
  const sessions = new Map<string, HttpAuth>();
  const sessionOf = (service: string) => {
    const known = sessions.get(service) ?? openSession(rootOf(service), service);
    sessions.set(service, known);
    return known;
  };
  const openSession = (path: string, service: string) =>
    sessionAuth(async (send, signal) => {
      const request: SignedRequest = { method: 'GET', path, body: '', headers: {} };
      const login = own ? await own.headers(request, signal, send) : {};
      const response = await send(path, {
        method: 'GET',
        path,
        headers: { ...login, accept: 'application/json', 'x-csrf-token': 'Fetch' },
        signal,
      });
      if (response.status === 401) {
        // A token of OAuth that was refused is asked for again by the next request.
        own?.renew?.(login);
        throw new AuthError(`SAP refuses the login (401): ${whatToCheck(settings)}`);
      }
      if (response.status === 403)
        throw new AuthError(
          `SAP refuses the service ${service} to this user (403): add it to the user’s role or communication arrangement`,
        );
      if (response.status >= 300)
        throw new ConfigError(
          `SAP answered ${response.status} at ${path}: check settings.url and settings.service_path, and that the service is activated`,
        );
      const token = response.headers['x-csrf-token'];
      const cookie = cookiesOf(response.headers['set-cookie'] ?? '');
      if (token === undefined || /^required$/i.test(token))
        throw new ConfigError(
          `SAP sent no CSRF token at ${path}: a proxy before it may remove the header x-csrf-token`,
        );
      return { headers: { 'x-csrf-token': token, ...(cookie === '' ? {} : { cookie }) } };
    }, clock);
  return {
    headers: async (request, signal, send) => {
      const login = own ? await own.headers(request, signal, send) : {};
      return { ...login, ...(await sessionOf(serviceIn(request.path, settings)).headers(request, signal, send)) };
    },
    renew: (refused) => {
      const isOwnRenewed = own?.renew?.(refused) === true;
      for (const session of sessions.values()) session.renew?.(refused);
      return isOwnRenewed || sessions.size > 0;
    },
  };
}

/** Undefined for a client certificate, which belongs to the connection. */
function ownLogin({ user, password, oauth }: Settings, clock: Clock): HttpAuth | undefined {
  if (oauth) {
    const { token_url, client_id, client_secret, scope } = oauth;
    return clientCredentials({ tokenUrl: token_url, clientId: client_id, clientSecret: client_secret, scope }, clock);
  }
  return user !== undefined && password !== undefined ? basicAuth(user, password) : undefined;
}

function whatToCheck({ user, oauth }: Settings): string {
  if (oauth) return 'check settings.oauth and the communication arrangement';
  if (user !== undefined) return 'check settings.user and settings.password, and whether the user is locked';
  return 'check that the client certificate is assigned to a user (CERTRULE)';
}

/** Whether SAP has refused the login or the token, and has done nothing. */
export function isLoginRefused({ status, headers }: HttpResponse): boolean {
  return status === 401 || (status === 403 && /^required$/i.test(headers['x-csrf-token'] ?? ''));
}

/** The cookies of `set-cookie`, whose several values are joined by a comma, as `cookie` has them. */
function cookiesOf(header: string): string {
  return header
    .split(/,\s*(?=[^;,=\s]+=)/u)
    .map((cookie) => cookie.split(';')[0]?.trim() ?? '')
    .filter((cookie) => cookie !== '')
    .join('; ');
}
