/**
 * The examples of docs/library.md, as they stand there: each is a module whose first line is its file name, and receives a
 * notification in the current version of its framework.
 */
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { describe, expect, test, vi } from 'vitest';
import { signBody } from '#contract/signature.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const guide = await readFile(join(root, 'docs/library.md'), 'utf8');
const examples = new Map(
  [...guide.matchAll(/^```js\n\/\/ (\S+\.js)\b.*?\n(.*?)^```$/gms)].map(([, file = '', text = '']) => [file, text]),
);
const key = 'the-signing-key';

type WebHandler = Parameters<typeof getRequestListener>[0];

/** What the examples export: each has one of these, and `app` is that of its framework. */
interface Exported {
  readonly listener: RequestListener;
  readonly app: RequestListener & {
    ready(): Promise<void>;
    readonly routing: RequestListener;
    callback(): RequestListener;
    readonly fetch: WebHandler;
  };
  readonly POST: WebHandler;
  readonly handler: (event: object) => Promise<{ readonly statusCode: number; readonly body: string }>;
}

const listenerOf: Record<string, (exported: Exported) => RequestListener> = {
  'node-http.js': ({ listener }) => listener,
  'express.js': ({ app }) => app,
  'express-json.js': ({ app }) => app,
  'fastify.js': ({ app }) => {
    const ready = app.ready();
    return (request, response) => void ready.then(() => app.routing(request, response));
  },
  'koa.js': ({ app }) => app.callback(),
  'hono.js': ({ app }) => webListener(app.fetch),
  'app/webhook/route.js': ({ POST }) => webListener(POST),
  'lambda.js': (exported) => webListener((request) => throughLambda(exported, request)),
};

test('every example is run here', () => {
  expect([...examples.keys()].sort()).toEqual(['receiver.js', ...Object.keys(listenerOf)].sort());
});

describe.each([
  ['express', Object.keys(listenerOf)],
  // The same examples with the version before.
  ['express4', ['express.js', 'express-json.js']],
])('with the package %s', (expressPackage, files) => {
  test.each(files)('%s receives a notification, and refuses a forged one', async (file) => {
    const folder = await scratchFolder();
    await install(folder, expressPackage);
    for (const [name, text] of examples) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    await writeFile(
      join(folder, 'awards.js'),
      'export const read = []; export const readAwardsOf = (id) => read.push(id);',
    );
    vi.stubEnv('SIGNING_KEY', key);
    const exported = (await import(pathToFileURL(join(folder, file)).href)) as Exported;
    const { read } = (await import(pathToFileURL(join(folder, 'awards.js')).href)) as { read: string[] };
    vi.unstubAllEnvs();

    const url = await listen(listenerOf[file]?.(exported));
    const event = '6f3f0f8c-5a6e-4c1c-9d60-2f6a4f6f0c11';
    const payload = { sourcing_event: event, sourcing_event_name: 'Stühle' };
    const body = JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', timestamp: new Date().toISOString(), payload });
    const headers = { 'content-type': 'application/json', 'x-signature': signBody(body, key) };
    const post = async (sent: string) =>
      (await fetch(`${url}/webhook`, { method: 'POST', body: sent, headers })).status;
    expect(await post(`${body} `)).toBe(401);
    expect(read).toEqual([]);
    expect(await post(body)).toBe(200);
    expect(read).toEqual([event]);
  });
});

/** The packages that the examples import, as if npm had installed them in the folder. */
async function install(folder: string, expressPackage: string): Promise<void> {
  const modules = join(folder, 'node_modules');
  await mkdir(modules);
  await symlink(root, join(modules, 'sourcing-bridge'));
  await symlink(join(root, 'node_modules', expressPackage), join(modules, 'express'));
  for (const name of ['fastify', 'hono', 'koa']) await symlink(join(root, 'node_modules', name), join(modules, name));
}

async function listen(listener: RequestListener | undefined): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function webListener(handler: WebHandler): RequestListener {
  const listener = getRequestListener(handler);
  return (request, response) => void listener(request, response);
}

/** What a function URL does. */
async function throughLambda({ handler }: Exported, request: Request): Promise<Response> {
  const { statusCode, body } = await handler({
    version: '2.0',
    headers: Object.fromEntries(request.headers),
    requestContext: { http: { method: request.method } },
    body: await request.text(),
    isBase64Encoded: false,
  });
  return new Response(body, { status: statusCode });
}
