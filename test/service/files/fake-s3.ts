/**
 * A fake of an S3-compatible store. The stores that npm and Debian offer either need a cluster or check signatures of
 * version 4 only in part. This one knows PUT, GET and DELETE of objects in one bucket, path style, and refuses what a
 * store refuses: a wrong signature (computed here from Amazon's description of Signature Version 4), an old date, a
 * body without a length, and bytes that do not match the checksum.
 */
import { createHash, createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface FakeS3 {
  readonly endpoint: string;
  readonly objects: Map<string, Buffer>;
  /** Methods and paths so far. */
  readonly requests: string[];
  /** Answers the next request, and only that one, instead of the store. */
  instead: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  openConnections(): Promise<number>;
  close(): Promise<void>;
}

export const fakeBucket = 'files-of-the-test';
export const fakeRegion = 'eu-test-1';
export const fakeCredentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCY' };

class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

export async function startFakeS3(): Promise<FakeS3> {
  const objects = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    fake.requests.push(`${request.method} ${request.url}`);
    const { instead } = fake;
    fake.instead = undefined;
    if (instead) return instead(request, response);
    answer(request, response, objects).catch((error: unknown) => {
      const { status, code } = error instanceof Refusal ? error : new Refusal(500, 'InternalError');
      response.writeHead(status, { 'content-type': 'application/xml' });
      response.end(
        `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>refused by the fake</Message></Error>`,
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const fake: FakeS3 = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects,
    requests: [],
    instead: undefined,
    openConnections: () =>
      new Promise((resolve, reject) =>
        server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
      ),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return fake;
}

async function answer(request: IncomingMessage, response: ServerResponse, objects: Map<string, Buffer>): Promise<void> {
  const url = new URL(request.url ?? '', 'http://fake');
  const length = request.headers['content-length'];
  if (request.method === 'PUT' && length === undefined) throw new Refusal(411, 'MissingContentLength');
  const body = await buffer(request);
  checkSignature(request, url, body);
  const [, bucket, ...rest] = url.pathname.split('/');
  if (bucket !== fakeBucket) throw new Refusal(404, 'NoSuchBucket');
  const key = rest.join('/');
  if (request.method === 'PUT') {
    objects.set(key, body);
    response.writeHead(200, { etag: '"x"' }).end();
  } else if (request.method === 'DELETE') {
    objects.delete(key);
    response.writeHead(204).end();
  } else if (request.method === 'GET') {
    const found = objects.get(key);
    if (found === undefined) throw new Refusal(404, 'NoSuchKey');
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (first === undefined) {
      response.writeHead(200, { 'content-length': found.length, 'content-type': 'application/octet-stream' });
      response.end(found);
      return;
    }
    if (Number(first) >= found.length) throw new Refusal(416, 'InvalidRange');
    const part = found.subarray(Number(first), Number(last) + 1);
    const range = `bytes ${first}-${Number(first) + part.length - 1}/${found.length}`;
    response.writeHead(206, { 'content-length': part.length, 'content-range': range }).end(part);
  } else throw new Refusal(405, 'MethodNotAllowed');
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest();
const hmac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest();

/** https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
function checkSignature(request: IncomingMessage, url: URL, body: Buffer): void {
  const [, access, date, region, service, signedHeaders = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      request.headers.authorization ?? '',
    ) ?? [];
  if (access !== fakeCredentials.accessKeyId) throw new Refusal(403, 'InvalidAccessKeyId');
  if (region !== fakeRegion || service !== 's3') throw new Refusal(400, 'AuthorizationHeaderMalformed');
  const header = (name: string) =>
    String(request.headers[name] ?? '')
      .trim()
      .replaceAll(/ +/g, ' ');
  const stamp = header('x-amz-date');
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(stamp) ?? [];
  const at = Date.UTC(Number(y), Number(mo) - 1, Number(d), Number(h), Number(mi), Number(s));
  if (!(Math.abs(at - Date.now()) < 15 * 60_000) || !stamp.startsWith(date ?? ' '))
    throw new Refusal(403, 'RequestTimeTooSkewed');
  const names = signedHeaders.split(';');
  for (const name of Object.keys(request.headers))
    if ((name === 'host' || name.startsWith('x-amz-')) && !names.includes(name)) throw new Refusal(403, 'AccessDenied');
  const payload = header('x-amz-content-sha256');
  if (payload !== 'UNSIGNED-PAYLOAD' && payload !== sha256(body).toString('hex'))
    throw new Refusal(400, 'XAmzContentSHA256Mismatch');
  const checksum = request.headers['x-amz-checksum-sha256'];
  if (checksum !== undefined && checksum !== sha256(body).toString('base64')) throw new Refusal(400, 'BadDigest');
  if (request.method === 'PUT' && checksum === undefined && payload === 'UNSIGNED-PAYLOAD')
    throw new Refusal(400, 'NothingProtectsTheBytes');
  const encode = (text: string) =>
    encodeURIComponent(text).replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const query = [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
  const canonical = [
    request.method,
    url.pathname,
    query,
    ...names.map((name) => `${name}:${header(name)}`),
    '',
    signedHeaders,
    payload,
  ].join('\n');
  const scope = `${date}/${region}/s3/aws4_request`;
  const key = ['s3', 'aws4_request'].reduce(
    (before: Buffer, part) => hmac(before, part),
    hmac(hmac(`AWS4${fakeCredentials.secretAccessKey}`, date ?? ''), region),
  );
  const expected = hmac(key, ['AWS4-HMAC-SHA256', stamp, scope, sha256(canonical).toString('hex')].join('\n'));
  if (expected.toString('hex') !== signature) throw new Refusal(403, 'SignatureDoesNotMatch');
}
