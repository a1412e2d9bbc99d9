/** A console with its access for tests: the real application on a free port, one page behind the check, and browsers. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { type ConsoleAccess, createConsoleAccess } from '#console/access/console-access.ts';
import { consoleHeader } from '#console/access/refuse-forgery.ts';
import { operatorOf, viewerOf } from '#console/access/viewer.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox } from '#platform/secrets.ts';
import type { TestClock } from '../../bridge/parts.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import type { TestDatabase } from '../../harness/test-database.ts';

export interface TestConsole {
  readonly url: string;
  readonly port: number;
  readonly access: ConsoleAccess;
  /** A browser with cookies of its own. */
  browser(options?: { address?: string }): Browser;
}

export interface Browser {
  readonly cookies: Map<string, string>;
  open(path: string, headers?: Record<string, string>): Promise<Response>;
  submit(path: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Response>;
  /** As a script of the console does it. */
  call(method: string, path: string, headers?: Record<string, string>): Promise<Response>;
  /** Opens the login page and logs in. */
  logIn(name: string, password: string, next?: string, code?: string): Promise<Response>;
}

/** Starts it; rejects as its start does. Addresses of browsers are those that a proxy on this machine names. */
export async function startConsole(
  db: TestDatabase,
  clock: TestClock,
  settings: Record<string, unknown> = {},
  port = 0,
): Promise<TestConsole> {
  const registry = new Registry();
  const access = createConsoleAccess({
    settings: bridgeSettings.parse(settings),
    database: db.database,
    secrets: createSecretBox(Buffer.alloc(32, 7)),
    clock,
    log: silentLogger,
    registry,
  });
  const application = createApplication({
    log: silentLogger,
    registry,
    readiness: {},
    hosts: { names: ['console.example'], setting: 'bridge.console_names' },
    trustsProxy: () => true,
    guardMetrics: (asked) => access.guardMetrics(asked),
  });
  await access.mount(application);
  application.express.get(
    '/status.json',
    (_request, response) => void response.json({ seen: viewerOf(response).name, role: viewerOf(response).role }),
  );
  application.express.get('/who', (_request, response) => void response.json(viewerOf(response)));
  application.express.post('/change', (_request, response) => void response.json(operatorOf(response)));
  application.finish();
  const server = await listen(application.listener, { host: '127.0.0.1', port });
  closeAtEnd(() => server.close(0));
  return {
    url: server.url,
    port: server.port,
    access,
    browser: (options) => createBrowser(server.url, options),
  };
}

function createBrowser(url: string, { address }: { address?: string } = {}): Browser {
  const cookies = new Map<string, string>();
  const send = async (
    path: string,
    init: { method?: string; headers?: Record<string, string>; body?: string } = {},
  ) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const { method = 'GET', body } = init;
    const headers = {
      ...(cookie !== '' && { cookie }),
      ...(address !== undefined && { 'x-forwarded-for': address }),
      ...init.headers,
    };
    const response = await exchange(`${url}${path}`, { method, headers, body });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/expires=thu, 01 jan 1970/i.test(line)) cookies.delete(name);
      else cookies.set(name, decodeURIComponent(value));
    }
    return response;
  };
  const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' };
  const browser: Browser = {
    cookies,
    open: (path, headers) => send(path, { headers: { 'sec-fetch-site': 'none', ...navigation, ...headers } }),
    submit: (path, fields, headers) =>
      send(path, {
        method: 'POST',
        headers: {
          'sec-fetch-site': 'same-origin',
          ...navigation,
          'content-type': 'application/x-www-form-urlencoded',
          ...headers,
        },
        body: new URLSearchParams(fields).toString(),
      }),
    call: (method, path, headers) =>
      send(path, {
        method,
        headers: { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors', [consoleHeader]: '1', ...headers },
      }),
    logIn: async (name, password, next = '/', code = '') => {
      const page = await (await browser.open(`/login?next=${encodeURIComponent(next)}`)).text();
      const field = (wanted: string) => new RegExp(`name="${wanted}" value="([^"]*)"`).exec(page)?.[1] ?? '';
      return browser.submit('/login', { name, password, code, form_token: field('form_token'), next: field('next') });
    },
  };
  return browser;
}

/** Not by `fetch`, which sets the headers itself that a browser sets. An empty header is not sent. */
async function exchange(
  url: string,
  { method, headers, body }: { method: string; headers: Record<string, string>; body: string | undefined },
): Promise<Response> {
  const sent = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''));
  const call = request(url, { method, headers: sent, agent: false }).end(body);
  const [answer] = (await once(call, 'response')) as [IncomingMessage];
  const { statusCode = 0, rawHeaders } = answer;
  const pairs = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [[name, rawHeaders[index + 1] ?? '']] : []));
  const bytes = await buffer(answer);
  return new Response(bytes.length === 0 ? null : bytes, { status: statusCode, headers: pairs as [string, string][] });
}
