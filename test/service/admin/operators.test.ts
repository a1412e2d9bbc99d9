/** Operators with names beside the token of the settings, and that token replaced while the services run. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readActions } from '#platform/audit-log.ts';
import { runHere } from '../../cli/command-line.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';

const as = (service: TestService, token: string) => (method: string, path: string, body?: unknown) =>
  request(method, service.url + path, { key: token, ...(body !== undefined && { body }) });

test('an operator with a name acts under that name, until it expires or is revoked', async () => {
  const clock = createManualClock(Date.UTC(2030, 0, 1));
  const service = await startTestService({ clock });
  const made = await service.operator('POST', '/admin/operators', { name: 'anna', expires_at: '2030-01-02' });
  expect(made).toMatchObject({ status: 201, body: { name: 'anna', token: expect.any(String) } });
  const anna = as(service, made.body.token);
  const organisation = await anna('POST', '/admin/organisations', { name: 'Acme' });
  expect(organisation.status).toBe(201);
  const [entry] = await readActions(service.db.database, 'service', { what: 'organisation.create', limit: 1 });
  expect(entry).toMatchObject({ who: { kind: 'token', name: 'anna' }, object: `organisation ${organisation.body.id}` });
  // Stored as a hash alone.
  const [row] = await service.db.database.query<{ row: string }>('select o::text as row from service.operators o');
  expect(row?.row).not.toContain(made.body.token);

  const twice = await service.operator('POST', '/admin/operators', { name: 'anna' });
  expect([twice.status, twice.body.detail]).toEqual([409, expect.stringContaining('"anna"')]);
  expect((await service.operator('POST', '/admin/operators', { name: 'operator' })).status).toBe(409);
  expect((await service.operator('POST', '/admin/operators', { name: 'b', expires_at: '2029-01-01' })).status).toBe(
    400,
  );
  clock.advance(24 * 3_600_000);
  expect((await anna('GET', '/admin/operators')).status).toBe(401);

  const bert = await service.operator('POST', '/admin/operators', { name: 'bert' });
  const byBert = as(service, bert.body.token);
  const list = await byBert('GET', '/admin/operators');
  expect(list.body.result.map(({ name }: { name: string }) => name)).toEqual(['anna', 'bert']);
  expect(JSON.stringify(list.body)).not.toContain(bert.body.token);
  expect((await byBert('DELETE', `/admin/operators/${bert.body.id}`)).status).toBe(204);
  expect((await byBert('GET', '/admin/operators')).status).toBe(401);
  expect((await service.operator('DELETE', '/admin/operators/x')).status).toBe(404);
});

test('the token of the settings is replaced in every process at once, and stays replaced after a restart', async () => {
  const service = await startTestService();
  const { database, url } = service.db;
  const second = await startTestService({ db: service.db });
  const colleague = await service.operator('POST', '/admin/operators', { name: 'carla' });
  expect((await service.operator('GET', '/admin/operators')).status).toBe(200);
  const folder = await scratchFolder();
  const config = join(folder, 'bridge.yaml');
  const command = async (token: string) => {
    await writeFile(config, JSON.stringify({ admin_token: token }));
    return runHere(['operator-token', '--config', config, '--data', folder, '--json'], { DATABASE_URL: url });
  };
  const replaced = await command(service.adminToken);
  expect([replaced.code, replaced.stderr]).toEqual([0, '']);
  const { token } = JSON.parse(replaced.stdout) as { token: string };
  const restarted = await startTestService({ db: service.db });
  for (const each of [service, second, restarted]) {
    expect((await each.operator('GET', '/admin/operators')).status).toBe(401);
    expect((await as(each, token)('GET', '/admin/operators')).status).toBe(200);
    expect((await as(each, colleague.body.token)('GET', '/admin/operators')).status).toBe(200);
  }
  const list = await as(service, token)('GET', '/admin/operators');
  const own = list.body.result.find(({ replaces_setting: isOwn }: { replaces_setting: boolean }) => isOwn);
  expect((await as(service, token)('DELETE', `/admin/operators/${own.id}`)).status).toBe(404);
  // The new one is replaced in the same way, whether it stands in the settings by now or not.
  const next = JSON.parse((await command(token)).stdout) as { token: string };
  expect((await as(service, token)('GET', '/admin/operators')).status).toBe(401);
  expect((await as(service, next.token)('GET', '/admin/operators')).status).toBe(200);
  const last = JSON.parse((await command(token)).stdout) as { token: string };
  expect((await as(second, next.token)('GET', '/admin/operators')).status).toBe(401);
  expect((await as(second, last.token)('GET', '/admin/operators')).status).toBe(200);
  const log = await readActions(database, 'service', { what: 'operator.replace-token', limit: 10 });
  expect(log).toHaveLength(3);
  const text = JSON.stringify(await readActions(database, 'service', { limit: 1_000 }));
  expect([token, next.token].filter((each) => text.includes(each))).toEqual([]);
});

test('a token of the data folder is replaced there', async () => {
  const service = await startTestService();
  const folder = await scratchFolder();
  const command = () => runHere(['operator-token', '--data', folder], { DATABASE_URL: service.db.url });
  for (const _run of [1, 2]) {
    const { code, stdout } = await command();
    expect([code, stdout]).toEqual([0, expect.stringContaining('admin-token is new')]);
    const token = (await readFile(join(folder, 'admin-token'), 'utf8')).trim();
    expect(stdout).not.toContain(token);
    expect((await as(service, token)('GET', '/admin/operators')).status).toBe(200);
  }
  expect((await stat(join(folder, 'admin-token'))).mode & 0o777).toBe(0o600);
});
