/** Which parts of the service a page of another origin may call from a browser. */
import { expect, test } from 'vitest';
import { linkTo, uploadFile } from '../harness/files.ts';
import { request } from '../harness/request.ts';
import { startTestService } from '../harness/test-service.ts';

const page = 'https://app.example.com';
const service = await startTestService({ corsOrigins: [page] });
const organisation = await service.organisation();
const preflight = { origin: page, 'access-control-request-method': 'GET' };

async function allowedOrigin(method: string, url: string, headers: Record<string, string>): Promise<string | null> {
  const answer = await fetch(url, { method, headers });
  await answer.arrayBuffer();
  return answer.headers.get('access-control-allow-origin');
}

test('a page of a listed origin calls the API and the desk, follows a download link and reads the description', async () => {
  const link = await linkTo(organisation, await uploadFile(organisation));
  const paths = ['/api/jobs/', '/desk/events', '/openapi.json', '/openapi.yaml'];
  for (const url of [...paths.map((path) => service.url + path), link]) {
    expect([url, await allowedOrigin('OPTIONS', url, preflight)]).toEqual([url, page]);
    const headers = { origin: page, authorization: `Bearer ${organisation.key}` };
    expect([url, await allowedOrigin('GET', url, headers)]).toEqual([url, page]);
  }
});

test('a page has no part in what the operator does, nor in probes', async () => {
  for (const path of ['/admin/organisations', '/metrics', '/readyz', '/docs']) {
    expect([path, await allowedOrigin('OPTIONS', service.url + path, preflight)]).toEqual([path, null]);
    expect([path, await allowedOrigin('GET', service.url + path, { origin: page })]).toEqual([path, null]);
  }
});

test('a service without the setting sends no cross-origin header', async () => {
  const closed = await startTestService();
  const { headers, status } = await request('OPTIONS', `${closed.url}/api/jobs/`, { headers: preflight });
  expect([status, headers.get('access-control-allow-origin')]).toEqual([405, null]);
});
