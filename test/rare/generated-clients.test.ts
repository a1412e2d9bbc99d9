/**
 * Clients that others make of the description: two generators that share no code, their output compiled by TypeScript,
 * and the examples of docs/api-for-integrators.md compiled with it and run against a service.
 */
import { execFile } from 'node:child_process';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { linkTo, uploadFile } from '../harness/files.ts';
import { request } from '../harness/request.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { startTestService } from '../harness/test-service.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);
const service = await startTestService();
const organisation = await service.organisation();
const folder = await scratchFolder();
const guide = await readFile(join(root, 'docs/api-for-integrators.md'), 'utf8');
const examples = new Map(
  [...guide.matchAll(/```ts (\S+)\n(.*?)```/gs)].map(([, name = '', code = '']) => [name, code]),
);

/** Runs a program of a package with the TypeScript that it needs. */
function generate(program: string, ...options: string[]) {
  const hook = pathToFileURL(join(import.meta.dirname, 'use-typescript-5.ts')).href;
  return run(process.execPath, ['--import', hook, join(import.meta.dirname, 'node_modules', program), ...options], {
    cwd: folder,
  });
}

/** The faults that TypeScript finds; empty when there are none. */
async function compile(files: readonly string[], options: Record<string, unknown> = {}): Promise<string> {
  const compilerOptions = {
    strict: true,
    noUncheckedIndexedAccess: true,
    target: 'es2024',
    lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'],
    module: 'esnext',
    moduleResolution: 'bundler',
    allowImportingTsExtensions: true,
    typeRoots: [join(root, 'node_modules/@types')],
    types: ['node'],
    noEmit: true,
    skipLibCheck: true,
    ...options,
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  return run(process.execPath, [tsc, '-p', folder], { cwd: folder }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
}

beforeAll(async () => {
  await symlink(join(import.meta.dirname, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, path] of [
    ['public', '/openapi.json'],
    ['desk', '/openapi-desk.json'],
  ] as const) {
    const { body } = await request('GET', service.url + path);
    await writeFile(join(folder, `${name}.json`), JSON.stringify(body));
    await generate('openapi-typescript/bin/cli.js', `${name}.json`, '-o', `${name}.ts`);
  }
  for (const [name, code] of examples) await writeFile(join(folder, name), code);
});

/** A module of the guide. */
const example = (name: string) => import(/* @vite-ignore */ pathToFileURL(join(folder, name)).href);

/** A server of the test's own; its address. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('types by openapi-typescript and every example of the guide compile under strict and exactOptionalPropertyTypes', async () => {
  expect([...examples.keys()]).toEqual(['story.ts', 'feed.ts', 'retry.ts', 'verify.ts', 'download.ts']);
  expect(await compile([...examples.keys()], { exactOptionalPropertyTypes: true })).toBe('');
});

test('the compiler sees what is wrong: a member that is unknown or missing', async () => {
  await writeFile(
    join(folder, 'wrong.ts'),
    `import type { components } from './public.ts';
     export const right: components['schemas']['CreateSourcingEvent'] = { name: 'Chairs' };
     export const unknown: components['schemas']['CreateSourcingEvent'] = { name: 'Chairs', nmae: 'Chairs' };
     export const missing: components['schemas']['CreateSourcingEvent'] = { description: 'Chairs' };`,
  );
  const faults = await compile(['wrong.ts']);
  expect(faults.match(/wrong\.ts\(\d+/g)).toEqual(['wrong.ts(3', 'wrong.ts(4']);
});

test('a client by @hey-api/openapi-ts compiles under strict, and what has a default may be left out', async () => {
  await generate('@hey-api/openapi-ts/dist/run.mjs', '-i', 'public.json', '-o', 'generated', '--no-log-file');
  await writeFile(
    join(folder, 'calls.ts'),
    `import { createSourcingEvent, createWebhook, listJobs, submitJob } from './generated';
     import type { SupplierChangeSubmission } from './generated';
     const triggers = ['TEST' as const];
     export const calls = [
       () => createSourcingEvent({ body: { name: 'Chairs', bid_sheet: { lots: [{ name: 'A' }] } } }),
       () => createWebhook({ body: { name: 'ERP', url: 'https://erp.example.com', triggers } }),
       () => submitJob({ body: { type: 'CREATE_SOURCING_REQUEST', name: 'Chairs' } }),
       () => listJobs(),
     ];
     export const attempts = (of: SupplierChangeSubmission): number | undefined => of.state?.attempts;`,
  );
  expect(await compile(['calls.ts'])).toBe('');
});

test('a generated client plays a tender from its supplier to the award in the feed', async () => {
  const env = { ...process.env, SOURCING_URL: service.url, SOURCING_KEY: organisation.key };
  // 100 sheets at 12.50.
  expect((await run(process.execPath, ['story.ts'], { cwd: folder, env })).stdout).toBe('Sheet 2 mm 1250\n');
});

test('the guide reads a feed page by page, and goes on from where it was', async () => {
  const { readFeed } = await example('feed.ts');
  const other = await service.organisation();
  const seen: { id: string; modified: string }[] = [];
  for (const name of ['A', 'B']) {
    const job = (await other.call('POST', '/api/jobs/create-sourcing-events', { name })).body.id;
    await expect.poll(async () => (await other.call('GET', `/api/jobs/${job}`)).body.status).toBe('COMPLETED');
    const since = seen.at(-1)?.modified;
    for await (const page of readFeed(service.url, other.key, 'sourcing-events', since)) seen.push(...page);
  }
  // The bound is inclusive: A comes once more.
  expect(seen.map((one) => (one as unknown as { name: string }).name)).toEqual(['A', 'A', 'B']);
  await expect(readFeed(service.url, 'wrong', 'awards').next()).rejects.toThrow(/^401/);
});

test('the guide repeats a POST under the same key after a refusal for a time, and not after one for good', async () => {
  const { post } = await example('retry.ts');
  const keys: unknown[] = [];
  const statuses = [503, 429, 202, 400];
  const url = await serve((asked, answer) => {
    keys.push(asked.headers['idempotency-key']);
    answer.writeHead(statuses[keys.length - 1] ?? 500, { 'retry-after': '0' }).end('{}');
  });
  expect((await post(url, 'key', {})).status).toBe(202);
  expect([keys.length, new Set(keys).size]).toEqual([3, 1]);
  expect((await post(url, 'key', {})).status).toBe(400);
  expect(new Set(keys).size).toBe(2);
  await expect(post(url, 'key', {}, 2)).rejects.toThrow('No answer after 2 tries: 500');
});

test('the guide takes what is signed with the key, and nothing else', async () => {
  const { isSigned } = await example('verify.ts');
  // RFC 4231, test case 2.
  const body = Buffer.from('what do ya want for nothing?');
  const signature = 'hmac-sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843';
  expect(isSigned(body, signature, 'Jefe')).toBe(true);
  for (const wrong of [undefined, '', signature.slice(12), `${signature}0`, signature.replace('5b', '5c')])
    expect(isSigned(body, wrong, 'Jefe')).toBe(false);
  expect(isSigned(Buffer.from('another'), signature, 'Jefe')).toBe(false);
});

test('the guide continues a download by another link', async () => {
  const { download } = await example('download.ts');
  const id = await uploadFile(organisation, 'long.txt', '0123456789');
  const { tag } = await download(await linkTo(organisation, id));
  const rest = await download(await linkTo(organisation, id), 4, tag);
  expect([rest.bytes.toString(), rest.isWhole]).toEqual(['456789', false]);
  const another = await linkTo(organisation, await uploadFile(organisation, 'new.txt', 'abcdefghij'));
  expect((await download(another, 4, tag)).isWhole).toBe(true);
});
