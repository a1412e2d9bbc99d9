/**
 * A bridge as a process of its own, to be attacked over loopback: its memory and its sockets are those of the process.
 * The quick form of an attack runs in `npm test`; `ATTACK_FULL=1` (`npm run test:attack`) sends all of it.
 */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { createInstallation, lineOf, type Program } from '../faults/program-process.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { testCertificates } from '../harness/test-certificates.ts';
import { createTestDatabase } from '../harness/test-database.ts';

export const isFull = process.env['ATTACK_FULL'] === '1';

const signingKey = 'the signing key of the attacked bridge';

export interface AttackedBridge {
  readonly program: Program;
  readonly port: number;
  readonly consoleUrl: string;
  /** Resident memory of the process, in bytes. */
  memory(): Promise<number>;
  /** How many TCP connections of the webhook port the system knows, in whatever state, without those of TIME-WAIT. */
  sockets(): Promise<number>;
}

/** Starts a bridge with one source that cannot be reached. The settings are those of the sections `bridge` and `http`. */
export async function startAttackedBridge(
  options: { bridge?: object; http?: object; openFiles?: number } = {},
): Promise<AttackedBridge> {
  const db = await createTestDatabase();
  const folder = await scratchFolder();
  const { certPem, keyPem } = testCertificates();
  const tls = { cert_file: join(folder, 'tls.crt'), key_file: join(folder, 'tls.key') };
  await writeFile(tls.cert_file, certPem);
  await writeFile(tls.key_file, keyPem);
  const source = { name: 'main', base_url: 'http://127.0.0.1:9', api_key: 'none', signing_keys: [signingKey] };
  const installation = await createInstallation({
    databaseUrl: db.url,
    ...(options.openFiles !== undefined && { openFiles: options.openFiles }),
    configuration: {
      log_level: 'fatal',
      ...(options.http && { http: options.http }),
      bridge: { port: 0, console_port: 0, tls, sources: [source], ...options.bridge },
    },
  });
  const program = installation.start(['bridge']);
  const [, webhookUrl = '', consoleUrl = ''] =
    /ready (\S+) \(console (\S+)\)/.exec(await lineOf(program, / ready /)) ?? [];
  const port = Number(new URL(webhookUrl).port);
  return {
    program,
    port,
    consoleUrl,
    memory: async () =>
      1024 * Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${program.pid}/status`, 'utf8'))?.[1]),
    sockets: () => countSockets(port),
  };
}

/** Rows of the kernel's table whose own port is this one; 06 is TIME-WAIT, 0A the listening socket itself. */
async function countSockets(port: number): Promise<number> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const table = await readFile('/proc/net/tcp', 'utf8');
  return [...table.matchAll(/^\s*\d+: [0-9A-F]{8}:([0-9A-F]{4}) \S+ ([0-9A-F]{2}) /gm)].filter(
    ([, local, state]) => local === hex && state !== '06' && state !== '0A',
  ).length;
}

/** The address of the attacker's n-th connection: its own for each, or the same for all. */
export type Addresses = (index: number) => string;
export const oneAddress: Addresses = () => '127.0.0.1';
export const thousandAddresses: Addresses = (index) => `127.0.${1 + Math.floor(index / 250)}.${1 + (index % 250)}`;

/** Connects and sends nothing. */
export async function connectSilently(port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  destroyAtEnd(socket);
  await new Promise<void>((resolve) => void socket.once('connect', resolve).once('close', resolve));
  return socket;
}

export interface SecureConnection {
  readonly socket: TLSSocket;
  /** What has come back so far. */
  received(): string;
  readonly closed: Promise<unknown>;
}

/** Connects under TLS; undefined when the bridge does not take the connection. */
export async function connectSecurely(port: number, localAddress: string): Promise<SecureConnection | undefined> {
  const tcp = connect({ port, host: '127.0.0.1', localAddress });
  const socket = connectTls({ socket: tcp, servername: 'localhost', ca: testCertificates().caPem });
  destroyAtEnd(tcp);
  destroyAtEnd(socket);
  let received = '';
  socket.on('data', (bytes) => {
    received += String(bytes);
  });
  const closed = new Promise<void>((resolve) => void socket.on('close', () => resolve()));
  await Promise.race([new Promise((resolve) => void socket.once('secureConnect', resolve)), closed]);
  return socket.authorized ? { socket, received: () => received, closed } : undefined;
}

const open = new Set<Socket>();
function destroyAtEnd(socket: Socket): void {
  if (open.size === 0) closeAtEnd(async () => destroyAll(open));
  open.add(socket);
  socket.on('error', () => undefined);
  socket.on('close', () => open.delete(socket));
}

export function destroyAll(sockets: Iterable<Socket>): void {
  for (const socket of sockets) socket.destroy();
}

/** The head of a notification with a signature of the right form that signs nothing. */
export function forgedHead(length: number, source = 'main'): string {
  return notificationHead(length, `hmac-sha256=${'0'.repeat(64)}`, [], source);
}

function notificationHead(length: number, signature: string, more: readonly string[] = [], source = 'main'): string {
  return [
    `POST /webhooks/${source} HTTP/1.1`,
    'Host: localhost',
    `X-Signature: ${signature}`,
    'Content-Type: application/json',
    `Content-Length: ${length}`,
    ...more,
    '',
    '',
  ].join('\r\n');
}

let notifications = 0;

/** Sends a notification that the source has signed, on a connection of its own. Returns the status and how long it took. */
export async function notify({ port }: AttackedBridge, localAddress = '127.0.0.1') {
  notifications += 1;
  const body = JSON.stringify({
    trigger: 'TEST',
    timestamp: new Date().toISOString(),
    payload: { detail: String(notifications) },
  });
  const signature = `hmac-sha256=${createHmac('sha256', signingKey).update(body).digest('hex')}`;
  return ask(port, localAddress, notificationHead(body.length, signature, ['Connection: close']) + body);
}

/** Sends a GET on a connection of its own. */
export function get({ port }: AttackedBridge, path: string, headers: readonly string[] = []) {
  return ask(
    port,
    '127.0.0.1',
    [`GET ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close', ...headers, '', ''].join('\r\n'),
  );
}

async function ask(port: number, localAddress: string, request: string): Promise<{ status: number; ms: number }> {
  const startedMs = performance.now();
  const connection = await connectSecurely(port, localAddress);
  connection?.socket.write(request);
  await connection?.closed;
  const status = /^HTTP\/1\.1 (\d+) /.exec(connection?.received() ?? '')?.[1];
  return { status: Number(status ?? 0), ms: performance.now() - startedMs };
}

/** The status of the console's answer; `host` replaces the Host header. */
export async function askConsole({ consoleUrl }: AttackedBridge, path: string, host?: string): Promise<number> {
  const { port, host: own } = new URL(consoleUrl);
  const socket = await connectSilently(Number(port), '127.0.0.1');
  let received = '';
  socket.on('data', (bytes) => {
    received += String(bytes);
  });
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host ?? own}\r\nConnection: close\r\n\r\n`);
  if (!socket.closed) await once(socket, 'close');
  return Number(/^HTTP\/1\.1 (\d+) /.exec(received)?.[1] ?? 0);
}

/** The middle one of the times of some calls. */
export async function medianMs(count: number, call: () => Promise<{ ms: number }>): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < count; index += 1) times.push((await call()).ms);
  return times.toSorted((a, b) => a - b)[Math.floor(count / 2)] ?? 0;
}

/** Prints a figure of the full form, for a note on the attack. */
export function printFigure(what: string, figure: string): void {
  if (isFull) process.stdout.write(`${what}: ${figure}\n`);
}
