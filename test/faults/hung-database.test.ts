/** A database whose connections hang without breaking, as behind a pooler or a firewall that forgets them. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { signBody } from '#contract/signature.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { createLinkToken } from '#service/files/link-token.ts';
import { downloadLink } from '#service/files/serve-downloads.ts';
import { createUploadUrl } from '#service/files/serve-uploads.ts';
import { freePort } from '../harness/free-port.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { createInstallation, lineOf, type Program, until } from './program-process.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

const signingKey = 'key-of-the-test';

async function start(role: 'receive' | 'pull') {
  const db = await createTestDatabase();
  const url = new URL(db.url);
  const proxy = await startTcpProxy([Number(url.port)]);
  url.port = `${proxy.port}`;
  const port = await freePort();
  const installation = await createInstallation({
    databaseUrl: url.href,
    configuration: {
      sweep_seconds: 0.1,
      bridge: {
        host: '127.0.0.1',
        port,
        console_port: 0,
        sources: [{ name: 'main', base_url: 'https://localhost:1', api_key: 'key', signing_keys: [signingKey] }],
      },
    },
  });
  const program = installation.start(['bridge', '--role', role]);
  await lineOf(program, /ready/);
  const stored = async () =>
    (await db.database.query<{ job: string }>("select body::json -> 'payload' ->> 'job' as job from bridge.inbox")).map(
      ({ job }) => job,
    );
  return { proxy, program, stored, send: (job: string) => send(port, job) };
}

/** Sends a signed notification; resolves with the status of the answer, and its Retry-After. */
async function send(
  port: number,
  job: string,
): Promise<{ status: number | undefined; retryAfter: string | undefined }> {
  const timestamp = new Date().toISOString().replace('Z', '000Z');
  const body = JSON.stringify({ trigger: 'TEST', timestamp, payload: { job } });
  const sent = request({
    port,
    host: '127.0.0.1',
    method: 'POST',
    path: '/webhooks/main',
    headers: { 'content-type': 'application/json', 'x-signature': signBody(body, signingKey) },
    rejectUnauthorized: false,
    agent: false,
  });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  answer.resume();
  return { status: answer.statusCode, retryAfter: answer.headers['retry-after'] };
}

/** Every connection of the program hangs, and each new one. */
function hangAll(proxy: TcpProxy, program: Program): void {
  proxy.hang();
  const hanging = setInterval(() => proxy.hang(), 5);
  void program.end.then(() => clearInterval(hanging));
}

test('a notification that meets a hung connection is answered 503, and the next one is stored over another connection', async () => {
  const { proxy, stored, send } = await start('receive');
  expect(await send('before')).toMatchObject({ status: 200 });
  proxy.hang();
  expect(await send('meanwhile')).toMatchObject({ status: 503, retryAfter: expect.stringMatching(/^\d+$/) });
  await until('a notification is stored again', async () => (await send('after')).status === 200);
  expect(await stored()).toEqual(expect.arrayContaining(['before', 'after']));
});

test('a call of a service whose database hangs is answered 503, whoever calls', async () => {
  const db = await createTestDatabase();
  const url = new URL(db.url);
  const proxy = await startTcpProxy([Number(url.port)]);
  url.port = `${proxy.port}`;
  const installation = await createInstallation({ databaseUrl: url.href });
  const adminToken = 'token-of-the-operator-in-this-test';
  const program = installation.start(['service', '--port', '0'], { SOURCING_ADMIN_TOKEN: adminToken });
  const [base] = /http:\S+/.exec(await lineOf(program, /ready/)) ?? [];
  const call = async (method: string, path: string, token: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(`${base}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return {
      status: answer.status,
      retryAfter: answer.headers.get('retry-after'),
      body: (await answer.json()) as { id: string; key: string },
    };
  };
  const { body: organisation } = await call('POST', '/admin/organisations', adminToken, { name: 'Any' });
  const keys = `/admin/organisations/${organisation.id}/api-keys`;
  const { body: made } = await call('POST', keys, adminToken, { name: 'all' });
  const key = Buffer.from((await readFile(join(installation.dataDir, 'master-key'), 'utf8')).trim(), 'base64url');
  const links = createSecretBox(key);
  const anyId = randomUUID();
  const soonMs = Date.now() + 600_000;
  const download = `/downloads/${createLinkToken(links, downloadLink, anyId, soonMs)}`;
  const upload = new URL(createUploadUrl(links, { id: anyId, baseUrl: `${base}` }, 0, soonMs)).pathname;
  const answers = async () =>
    Promise.all([
      call('GET', download, ''),
      call('PUT', upload, '', {}),
      call('GET', keys, adminToken),
      call('GET', '/api/feeds/awards', made.key),
      call('POST', '/api/jobs/create-sourcing-requests', made.key, { name: 'Paper' }),
    ]);
  // No file and no job is behind the links.
  expect((await answers()).map(({ status }) => status)).toEqual([500, 404, 200, 200, 202]);
  hangAll(proxy, program);
  const unavailable = expect.objectContaining({ status: 503, retryAfter: expect.stringMatching(/^\d+$/) }) as object;
  expect(await answers()).toEqual([unavailable, unavailable, unavailable, unavailable, unavailable]);
});

test('a program whose database hangs ends all the same when it is asked to, and says why', async () => {
  const { proxy, program } = await start('pull');
  hangAll(proxy, program);
  await until('the program waits for an answer', () => proxy.swallowed > 0);
  const { code } = await program.terminate();
  const said = expect.stringMatching(/^Ended before everything was closed, as the database/) as string;
  expect([code, program.errors.at(-1)]).toEqual([1, said]);
});
