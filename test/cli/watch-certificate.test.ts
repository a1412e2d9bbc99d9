/** A certificate that is replaced in its files while a server runs: what new clients see, and what doctor says. */
import { X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { expect, test } from 'vitest';
import { watchCertificate } from '#cli/read-certificate.ts';
import { systemClock } from '#platform/clock.ts';
import { listen } from '#platform/http/server.ts';
import { ensureLocalCertificates } from '#platform/local-ca.ts';
import { createLogger, silentLogger } from '#platform/log.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const makePair = async () =>
  ensureLocalCertificates({
    directory: await scratchFolder(),
    hostnames: ['localhost'],
    clock: systemClock,
    log: silentLogger,
  });
const [one, other] = [await makePair(), await makePair()];

function shownBy(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: 'localhost', port, rejectUnauthorized: false });
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? '');
      socket.destroy();
    });
  });
}

test('a renewed pair is served to new connections and open ones go on; a pair that does not fit is refused, and said', async () => {
  const folder = await scratchFolder();
  const files = { cert_file: join(folder, 'server.crt'), key_file: join(folder, 'server.key') };
  const write = async (certPem: string, keyPem: string) => {
    await writeFile(files.cert_file, certPem);
    await writeFile(files.key_file, keyPem);
  };
  await write(one.certPem, one.keyPem);
  const lines: string[] = [];
  const log = createLogger({ name: 'test', level: 'info', destination: { write: (line) => void lines.push(line) } });
  const ended = new AbortController();
  closeAtEnd(() => ended.abort());
  const tls = await watchCertificate(files, 'service.tls', {
    log,
    signal: ended.signal,
    everyMs: 20,
  });
  const server = await listen((_request, response) => response.end('here'), { host: 'localhost', port: 0, tls });
  closeAtEnd(() => server.close(0));
  const prints = [one, other].map(({ certPem }) => new X509Certificate(certPem).fingerprint256);
  expect(await shownBy(server.port)).toBe(prints[0]);

  const open = connect({ host: 'localhost', port: server.port, rejectUnauthorized: false });
  await new Promise((resolve) => open.once('secureConnect', resolve));
  await write(other.certPem, other.keyPem);
  await expect.poll(() => shownBy(server.port)).toBe(prints[1]);
  open.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  let answer = '';
  for await (const chunk of open) answer += String(chunk);
  expect(answer).toContain('here');

  await write(one.certPem, other.keyPem);
  await expect.poll(() => tls.refused).toContain('TLS cannot use the certificate');
  expect(await shownBy(server.port)).toBe(prints[1]);
  expect(lines.filter((line) => line.includes('is not served'))).toHaveLength(1);

  await write(one.certPem, one.keyPem);
  await expect.poll(() => shownBy(server.port)).toBe(prints[0]);
  expect(tls.refused).toBeUndefined();
});
