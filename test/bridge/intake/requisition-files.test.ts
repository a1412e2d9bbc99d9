/** Files of requisitions, given as a URL, at the real service: it fetches them through its network guard. */
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { loadAttachedFiles } from '#service/files/find-files.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { readWholeFeed } from '../../harness/sourcing.ts';
import { testCertificates } from '../../harness/test-certificates.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startRequisitions } from './real-requisitions.ts';

const bodyBytesMax = 100_000;
const requested: string[] = [];
const pages: Readonly<Record<string, RequestListener>> = {
  '/drawing.pdf': (_request, response) => response.writeHead(200, { 'content-type': 'application/pdf' }).end('%PDF'),
  '/untyped': (_request, response) => response.writeHead(200).end('bytes'),
  '/large': (_request, response) => response.writeHead(200).end(Buffer.alloc(bodyBytesMax + 1)),
  '/endless': (_request, response) => {
    const chunk = Buffer.alloc(20_000);
    const more = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', more);
    more();
  },
  '/moved': (_request, response) => response.writeHead(302, { location: '/drawing.pdf' }).end(),
};
const { keyPem, certPem } = testCertificates();
const server = createServer({ key: keyPem, cert: certPem }, (request, response) => {
  requested.push(request.url ?? '');
  const page = pages[request.url ?? ''];
  if (page) page(request, response);
  else response.writeHead(404).end();
});
server.on('tlsClientError', () => undefined);
server.listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
closeAtEnd(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});
const urlOf = (path: string) => `https://localhost:${(server.address() as AddressInfo).port}${path}`;

const requisition = (number: string, files: readonly { file_name: string; content?: string; url?: string }[]) => ({
  number,
  name: `Fasteners ${number}`,
  closed: false,
  items: [{ line: '10', name: 'Bolt', quantity: '4.5', unit: 'kg' }],
  files,
});

async function attach(
  files: readonly { file_name: string; content?: string; url?: string }[],
  { isLocalAllowed }: { isLocalAllowed: boolean },
) {
  requested.length = 0;
  const service = await startTestService({ bodyBytesMax });
  const organisation = await service.organisation();
  if (!isLocalAllowed)
    await service.operator('PUT', `/admin/organisations/${organisation.id}/allowed-networks`, { cidrs: [] });
  const { erp, letters, makeAll } = await startRequisitions({ service, organisation }, { make: 'event' });
  erp.saveRecord('requisitions', requisition('PR-7', files));
  erp.saveRecord('requisitions', requisition('PR-8', []));
  await makeAll();
  const events = await readWholeFeed(organisation, 'sourcing-events');
  expect(new Set(events.map((event) => event['reference_id']))).toEqual(new Set(['PR-7', 'PR-8']));
  const event = events.find((each) => each['reference_id'] === 'PR-7') ?? {};
  const held = await loadAttachedFiles(service.db.database, 'sourcing_events', String(event['id']));
  return {
    held: held.map(({ file_name: name, content_type: type, size }) => [name, type, size]),
    letters: (await letters()).map(({ erpKey, errorType, lastError }) => [erpKey, errorType, lastError]),
  };
}

test('files that are URLs are fetched by the service; one that cannot be is named to a person, and keeps no other back', async () => {
  const { held, letters } = await attach(
    [
      ...['/large', '/endless', '/moved', '/missing', '/drawing.pdf', '/untyped'].map((path) => ({
        file_name: path.slice(1),
        url: urlOf(path),
      })),
      { file_name: 'note.txt', content: Buffer.from('by hand').toString('base64') },
      { file_name: 'plain', url: 'http://files.example.com/drawing.pdf' },
      { file_name: 'broken', content: 'no base64!' },
    ],
    { isLocalAllowed: true },
  );
  // With the type that its server says.
  expect(held).toEqual([
    ['drawing.pdf', 'application/pdf', 4],
    ['untyped', 'application/octet-stream', 5],
    ['note.txt', 'application/octet-stream', 7],
  ]);
  // A redirection is not followed: only the file itself was asked for at its own URL.
  expect(requested.toSorted()).toEqual(['/drawing.pdf', '/endless', '/large', '/missing', '/moved', '/untyped']);
  expect(letters).toEqual([['PR-7', 'files', expect.any(String) as string]]);
  for (const words of [
    'large: too_large',
    'endless: too_large',
    'moved: redirect',
    'missing: http_404',
    'plain: ',
    'broken: ',
  ])
    expect(letters[0]?.[2]).toContain(words);
});

test('one in a private network is not fetched, and nobody learns whether it is there', async () => {
  const { held, letters } = await attach(
    [
      { file_name: 'inside', url: urlOf('/drawing.pdf') },
      { file_name: 'metadata', url: 'https://169.254.169.254/latest/meta-data' },
      { file_name: 'router', url: 'https://10.0.0.1/' },
      { file_name: 'mapped', url: 'https://[::ffff:127.0.0.1]/' },
    ],
    { isLocalAllowed: false },
  );
  expect([held, requested]).toEqual([[], []]);
  expect(letters).toEqual([['PR-7', 'files', expect.any(String) as string]]);
  for (const name of ['inside', 'metadata', 'router', 'mapped'])
    expect(letters[0]?.[2]).toContain(`${name}: unreachable`);
});
