import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSourceClient } from '#client/source-client.ts';
import { errorText } from '#platform/errors.ts';
import { testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { type ScriptedService, startScriptedService, status } from './scripted-service.ts';

let service: ScriptedService;
beforeEach(async () => {
  service = await startScriptedService();
});
afterEach(() => service.close());

const seen: string[] = [];
function upload(...given: Parameters<ReturnType<typeof createSourceClient>['uploadFiles']>) {
  seen.length = 0;
  const client = createSourceClient({
    settings: { baseUrl: service.url, apiKey: 'secret-key', timeoutMs: 2_000, retries: 0 },
    fetch: testOutgoing().fetch,
    clock: testClock(),
    onRequest: ({ bucket, status: code }) => seen.push(`${bucket} ${code}`),
  });
  return client.uploadFiles(...given);
}
const fileOf = (name: string, text: string) => ({ file_name: name, content: Buffer.from(text).toString('base64') });
const put = () => service.requests.map(({ method, url, body }) => `${method} ${url} ${body}`);

test('each file goes to the URL under its name, of one name in the order of the files, without the API key', async () => {
  service.answers = [status(200)];
  const faults = await upload(
    [
      { file_name: 'b.txt', upload_url: `${service.url}/up/1?sign=x` },
      { file_name: 'a.txt', upload_url: `${service.url}/up/2` },
      { file_name: 'a.txt', upload_url: `${service.url}/up/3` },
    ],
    [fileOf('a.txt', 'first'), fileOf('b.txt', 'other'), fileOf('a.txt', 'second')],
  );
  expect(faults).toEqual([]);
  expect(put()).toEqual(['PUT /up/1?sign=x other', 'PUT /up/2 first', 'PUT /up/3 second']);
  expect(JSON.stringify(service.requests)).not.toContain('secret-key');
  expect(seen).toEqual(['uploads 200', 'uploads 200', 'uploads 200']);
});

test('a job that shows no names gets the files in their order; what it does not ask for is not sent', async () => {
  service.answers = [status(204)];
  const shown = [{ upload_url: `${service.url}/up/1` }, { upload_url: `${service.url}/up/2` }];
  expect(await upload(shown, [fileOf('a', 'one'), fileOf('b', 'two'), fileOf('c', 'three')])).toEqual([]);
  expect(put()).toEqual(['PUT /up/1 one', 'PUT /up/2 two']);
  service.requests.length = 0;
  // The first was uploaded before; the second was never sent.
  const odd = [{ file_name: 'a' }, { file_name: 'd', upload_url: `${service.url}/up/9` }];
  expect((await upload(odd, [fileOf('a', 'one')])).map(({ file }) => file)).toEqual(['d']);
  expect(put()).toEqual([]);
});

test('a refused upload is a fault that shows no URL, and keeps no other file back; a redirect is not followed', async () => {
  service.answers = [status(403), status(307, { location: `${service.url}/elsewhere` }), status(200)];
  const names = ['a', 'b', 'c'];
  const faults = await upload(
    names.map((name) => ({ file_name: name, upload_url: `${service.url}/up/${name}?sign=secret-sign` })),
    names.map((name) => fileOf(name, name)),
  );
  expect(faults.map(({ file, error }) => `${file}: ${errorText(error)}`)).toEqual([
    'a: 127.0.0.1 answered an upload with 403.',
    'b: 127.0.0.1 answered an upload with 307.',
  ]);
  expect(JSON.stringify(faults)).not.toContain('secret-sign');
  expect(put()).toHaveLength(3);
});

test.each([
  'http://files.example.com/up',
  'ftp://files.example.com/up',
  'not a link',
  'https://169.254.169.254/latest/meta-data',
  'https://10.0.0.1/up',
])('nothing is sent to %s', async (link) => {
  service.answers = [status(200)];
  const faults = await upload([{ file_name: 'a', upload_url: link }], [fileOf('a', 'one')]);
  expect(faults).toHaveLength(1);
  expect(service.requests).toEqual([]);
});
