/**
 * Clients that stop in the middle of a request, send slowly, open thousands of connections or do not wait for answers:
 * other clients are served meanwhile, and no connection or transaction stays open.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { linkTo, uploadFile } from '../../harness/files.ts';
import { connectRaw } from '../../harness/raw-connection.ts';
import { createFuzzFixture } from './fuzz-fixture.ts';
import { closeConnections, send } from './send-request.ts';

const fixture = await createFuzzFixture();
afterAll(closeConnections);
const { port } = new URL(fixture.service.url);
const key = `Authorization: Bearer ${fixture.organisation.key}`;

const head = (line: string, ...headers: string[]) =>
  [`${line} HTTP/1.1`, 'Host: test', key, ...headers, '', ''].join('\r\n');
const jobs = '/api/jobs/create-sourcing-requests';
const json = 'Content-Type: application/json';
const jobHead = (bytes: number, ...more: string[]) => head(`POST ${jobs}`, json, `Content-Length: ${bytes}`, ...more);

const open: Socket[] = [];
/** Opens connections that are closed with the test; their answers are read and dropped. */
async function connections(count: number, text = ''): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(Number(port), '127.0.0.1'));
  open.push(...sockets);
  await Promise.all(
    sockets.map(async (socket) => {
      socket.on('error', () => undefined);
      await once(socket, 'connect');
      socket.resume();
      if (text !== '') socket.write(text);
    }),
  );
  return sockets;
}

const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;

/** Makes ordinary calls, and checks that they are answered: while the clients of a test hold their connections, too. */
async function expectService(): Promise<void> {
  for (const path of ['/healthz', '/readyz', '/api/feeds/latest-bids', `/desk/events/${fixture.events.open}`]) {
    const headers = { authorization: `Bearer ${fixture.organisation.key}` };
    expect((await send(fixture, { method: 'GET', path, headers })).status).toBe(200);
  }
}

let before: Record<string, string>;
let socketsBefore: number;
beforeEach(async () => {
  await fixture.restore();
  before = await fixture.digest();
  await expectService();
  socketsBefore = sockets();
});

afterEach(async () => {
  for (const socket of open.splice(0)) socket.destroy();
  await expectService();
  expect(fixture.takeLoggedProblems()).toEqual([]);
  // The service may keep ten connections to its database, and the test one to the service.
  await eventually('every connection is closed', async () => sockets() <= socketsBefore + 11);
  const [row] = await fixture.service.db.database.query<{ stuck: number }>(
    `select count(*)::int as stuck from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
  );
  expect(row?.stuck).toBe(0);
});

test('a hundred half-sent bodies delay no other client, and change nothing when they are aborted', async () => {
  await connections(50, `${jobHead(1_000)}{"name":"half`);
  await connections(25, `${head(`POST ${jobs}`, json, 'Transfer-Encoding: chunked')}5\r\n{"nam`);
  await connections(
    25,
    `${head('POST /desk/files', 'Content-Type: text/plain', 'X-File-Name: a', 'Content-Length: 9')}half`,
  );
  await expectService();
  // Room that is reserved after the clients have gone would be freed in the next test.
  await eventually('every file has begun', async () => {
    const [row] = await fixture.service.db.database.query<{ begun: number }>(
      "select count(*)::int as begun from service.files where state = 'upload' and size > 0",
    );
    return row?.begun === 25;
  });
  for (const socket of open.splice(0)) socket.destroy();
  await fixture.waitUntilIdle();
  // The room of a file that breaks off is free a moment later.
  await expect.poll(() => fixture.digest()).toEqual(before);
});

test('two hundred clients that never finish their headers delay no other client', async () => {
  await connections(200, `GET /api/feeds/awards HTTP/1.1\r\nHost: test\r\n${key}\r\nX-Slow: `);
  await expectService();
  expect(await fixture.digest()).toEqual(before);
});

test('a request that is sent byte by byte is processed as any other', async () => {
  const body = '{"name":"Slowly"}';
  const connection = await connectRaw(Number(port));
  connection.socket.setNoDelay(true);
  for (const byte of jobHead(body.length, 'Connection: close') + body) {
    connection.send(byte);
    await new Promise(setImmediate);
  }
  expect(await connection.until('"PENDING"')).toMatch(/^HTTP\/1\.1 202 /);
  await fixture.waitUntilIdle();
});

test.each([
  ['longer than its Content-Length', jobHead(10), '{"name":"A longer one"}', [400]],
  [
    'followed by a whole request',
    jobHead(12),
    `{"name":"A"}${head('DELETE /api/webhooks/x', 'Connection: close')}`,
    [202, 404],
  ],
  [
    'that has a request inside its Content-Length',
    jobHead(200, 'Connection: close'),
    `{"name":"A"}${head('GET /healthz')}${' '.repeat(200)}`,
    [400],
  ],
])('a body %s is read up to its Content-Length', async (_what, headers, body, statuses) => {
  const connection = await connectRaw(Number(port));
  connection.send(headers + body);
  await connection.closed();
  expect([...connection.received().matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status))).toEqual(
    statuses,
  );
  await fixture.waitUntilIdle();
});

test('a body that is shorter than its Content-Length changes nothing when the client disconnects', async () => {
  const connection = await connectRaw(Number(port));
  connection.send(`${jobHead(1_000)}{"name":"A"}`);
  connection.socket.end();
  await connection.closed();
  await fixture.waitUntilIdle();
  expect(await fixture.digest()).toEqual(before);
});

test('answers that clients do not read to the end are released', async () => {
  const file = await uploadFile(fixture.organisation, 'large.bin', Buffer.alloc(8_000_000, 7));
  const link = new URL(await linkTo(fixture.organisation, file)).pathname;
  const paths = [link, '/docs/assets/swagger-ui-bundle.js', '/openapi.json', '/api/feeds/latest-bids?page_size=1000'];
  for (const path of paths) {
    const readers = await connections(15, head(`GET ${path}`));
    await Promise.all(readers.map((socket) => once(socket, 'readable').then(() => socket.destroy())));
  }
  // More calls than there are connections to the database.
  for (let count = 0; count < 12; count += 1) await expectService();
});

test('a thousand silent connections, and a thousand idle ones after an answer, need little memory', async () => {
  await expectService();
  const bytesBefore = process.memoryUsage().rss;
  await connections(1_000);
  await expectService();
  for (const socket of await connections(1_000)) socket.write('GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n');
  await expectService();
  // Both ends of each connection are in this process.
  expect(process.memoryUsage().rss - bytesBefore).toBeLessThan(400_000_000);
});

test('pipelined requests are answered in their order, each once', async () => {
  const count = 16;
  const connection = await connectRaw(Number(port));
  const bodies = Array.from({ length: count }, (_, index) => `{"name":"Request ${index}"}`);
  connection.send(
    bodies
      .map(
        (body, index) =>
          head('GET /healthz') + jobHead(body.length, ...(index === count - 1 ? ['Connection: close'] : [])) + body,
      )
      .join(''),
  );
  await connection.closed();
  const statuses = [...connection.received().matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status);
  expect(statuses).toEqual(Array.from({ length: count }, () => ['200', '202']).flat());
  const ids = [...connection.received().matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id);
  await fixture.waitUntilIdle();
  const made = await fixture.service.db.database.query<{ id: string; name: string }>(
    `select j.id, r.name from service.jobs j join service.sourcing_requests r on r.id = j.created_entity
     where j.id = any($1)`,
    [ids],
  );
  const names = new Map(made.map(({ id, name }) => [id, name]));
  expect(ids.map((id) => names.get(id ?? ''))).toEqual(Array.from({ length: count }, (_, index) => `Request ${index}`));
});

test('the service does not buffer all answers of a client that never reads', async () => {
  const [socket] = await connections(1);
  socket?.pause();
  for (let count = 0; count < 200; count += 1)
    socket?.write('GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: test\r\n\r\n');
  const bytesBefore = process.memoryUsage().rss;
  await expectService();
  // All 200 answers would be 300 MB.
  expect(process.memoryUsage().rss - bytesBefore).toBeLessThan(150_000_000);
});
