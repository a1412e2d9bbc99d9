/**
 * Builds docker/Dockerfile with a real Docker engine and runs docker/compose.yaml, without a registry of images: the base
 * is Debian by debootstrap with the Node of the npm package, and Debian's PostgreSQL and Redis stand in for the images of
 * PostgreSQL and Valkey, with their users and folders. It needs root, Debian's packages (below), and the registries of
 * Debian and npm, so it runs with `npm run test:image` only. The engine is one of its own, with its data in a scratch folder.
 */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { access, copyFile, cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const minuteMs = 60_000;
/** For what takes its time. */
const slow = { timeout: 3 * minuteMs, interval: 1_000 };

/** Why it cannot run here; undefined when it can. */
async function reasonToSkip(): Promise<string | undefined> {
  if (process.env['IMAGE'] !== '1') return 'npm run test:image builds and runs the image';
  if (process.getuid?.() !== 0) return 'test:image needs root: it starts a Docker engine of its own';
  const folders = ['/usr/sbin', ...(process.env['PATH'] ?? '').split(delimiter)];
  const programs = ['dockerd', 'docker', 'docker-compose', 'debootstrap'];
  const lacking = [];
  for (const program of programs) {
    const found = await Promise.allSettled(folders.map((folder) => access(join(folder, program))));
    if (found.every(({ status }) => status === 'rejected')) lacking.push(program);
  }
  if (lacking.length === 0) return undefined;
  return `test:image lacks ${lacking.join(', ')}: apt-get install --no-install-recommends docker.io docker-compose debootstrap`;
}

const print = (text: string) => process.stdout.write(`${text}\n`);

const skipped = await reasonToSkip();
if (skipped !== undefined && process.env['REQUIRE_IMAGE'] === '1') throw new Error(skipped);
if (skipped !== undefined && process.env['IMAGE'] === '1') print(skipped);

let folder: string;
/** The ports of this machine that lead to the service and to the bridge. */
let servicePort: number;
let consolePort: number;
const secrets: Record<string, string> = {};

const run = promisify(execFile);
/** Runs a program against the engine of this test, and returns its output. Rejects with it when the program fails. */
async function call(program: string, args: readonly string[], options: { cwd?: string } = {}): Promise<string> {
  const env = {
    ...process.env,
    ...secrets,
    DOCKER_HOST: `unix://${folder}/engine.sock`,
    DOCKER_CONFIG: folder,
    DOCKER_BUILDKIT: '1',
  };
  const { stdout, stderr } = await run(program, args, { cwd: root, ...options, env, maxBuffer: 64e6 });
  return stdout || stderr;
}
// Debian's: it can build with the engine's own BuildKit, without a plugin.
const docker = (...args: string[]) => call('/usr/bin/docker', args);
const compose = (...args: string[]) =>
  call('docker-compose', [
    '--file',
    join(folder, 'compose.yaml'),
    '--project-directory',
    join(root, 'docker'),
    '--project-name',
    'image',
    ...args,
  ]);
const bothProfiles = ['--profile', 'bridge', '--profile', 'roles'];
const inspect = async (name: string, format: string) => {
  const id = (await compose(...bothProfiles, 'ps', '--quiet', name)).trim();
  return (await docker('inspect', '--format', format, id)).trim();
};
const untilHealthy = async (name: string) => {
  await expect.poll(() => inspect(name, '{{.State.Health.Status}}'), { ...slow, message: name }).toBe('healthy');
};

async function startEngine() {
  const args = ['--data-root', `${folder}/data`, '--exec-root', `${folder}/exec`, '--pidfile', `${folder}/engine.pid`];
  const kernel = ['--exec-opt', 'native.cgroupdriver=cgroupfs', '--oom-score-adjust', '0'];
  const log = openSync(join(folder, 'engine.log'), 'w');
  const engine = spawn('/usr/sbin/dockerd', [...args, ...kernel, '--host', `unix://${folder}/engine.sock`], {
    stdio: ['ignore', log, log],
  });
  const ended = once(engine, 'exit');
  closeAtEnd(async () => {
    engine.kill('SIGTERM');
    await ended;
  });
  await vi.waitFor(() => docker('version'), slow);
}

/** Makes the image that the Dockerfile names as its base. */
async function makeBase() {
  const system = join(folder, 'system');
  const release = /^VERSION_CODENAME=(\w+)$/m.exec(await readFile('/etc/os-release', 'utf8'))?.[1] ?? 'bookworm';
  await run('debootstrap', ['--variant=minbase', release, system], { maxBuffer: 64e6 });
  const local = join(system, 'usr/local');
  await copyFile(join(root, 'node_modules/node/bin/node'), join(local, 'bin/node'));
  const [npm] = (await run('npm', ['pack', 'npm@11', '--silent', '--pack-destination', folder])).stdout
    .trim()
    .split('\n');
  const npmFolder = join(local, 'lib/node_modules/npm');
  await mkdir(npmFolder, { recursive: true });
  await run('tar', ['xzf', join(folder, npm ?? ''), '--strip-components', '1', '-C', npmFolder]);
  for (const name of ['npm', 'npx'])
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(local, 'bin', name));
  // As in the official image, where yarn is in a folder of its own.
  await mkdir(join(system, 'opt/yarn-v1'));
  await symlink('/opt/yarn-v1/bin/yarn', join(local, 'bin/yarn'));
  await run('chroot', [system, 'useradd', '--uid', '1000', '--user-group', 'node']);
  // The registry of this machine, and the authorities that it trusts.
  const setting = async (name: string) => (await run('npm', ['config', 'get', name])).stdout.trim();
  const authorities = await setting('cafile');
  const lines = [`registry=${await setting('registry')}`];
  if (authorities !== 'null') {
    await cp(authorities, join(local, 'etc/ca.crt'), { dereference: true });
    lines.push('cafile=/usr/local/etc/ca.crt');
  }
  await writeFile(join(local, 'etc/npmrc'), `${lines.join('\n')}\n`);
  await rm(join(system, 'var/cache/apt'), { recursive: true });
  await run('tar', ['-C', system, '-cf', join(folder, 'system.tar'), '.']);
  await docker('import', '--change', `ENV PATH=${paths}`, join(folder, 'system.tar'), base);
}

const base = /^ARG BASE=(.+)$/m.exec(readFileSync(join(root, 'docker/Dockerfile'), 'utf8'))?.[1] ?? '';
const paths = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Makes images that stand in for those of PostgreSQL and Valkey, whose users have the number 999 both. */
async function makeStandIns() {
  const text = readFileSync(join(root, 'docker/compose.yaml'), 'utf8');
  const context = join(folder, 'stand-in');
  await mkdir(context);
  await copyFile(join(import.meta.dirname, 'stand-in.sh'), join(context, 'stand-in.sh'));
  const lines = [
    `FROM ${base} AS programs`,
    'RUN useradd --uid 999 --user-group postgres && apt-get update && \\',
    '  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends postgresql redis-server && \\',
    '  rm -r /var/lib/postgresql && install -d -o 999 -g 999 /var/lib/postgresql /data && \\',
    '  chmod 3777 /run/postgresql && \\',
    '  ln -s redis-server /usr/bin/valkey-server && ln -s redis-cli /usr/bin/valkey-cli && \\',
    '  ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/',
    'FROM programs AS valkey',
    'VOLUME /data',
    'FROM programs AS postgres',
    'COPY stand-in.sh /',
    'VOLUME /var/lib/postgresql',
    'ENTRYPOINT ["sh", "/stand-in.sh"]',
  ];
  await writeFile(join(context, 'Dockerfile'), lines.join('\n'));
  for (const [target, image] of [
    ['postgres', /image: (postgres:\S+)/],
    ['valkey', /image: (valkey\/valkey:\S+)/],
  ] as const)
    await docker('build', '--network', 'host', '--target', target, '--tag', image.exec(text)?.[1] ?? '', context);
}

/** docker/compose.yaml as Debian's docker-compose 1.29 takes it, on ports that are free here, without monitoring. */
async function writeComposition() {
  servicePort = await freePort();
  consolePort = await freePort();
  const text = await readFile(join(root, 'docker/compose.yaml'), 'utf8');
  await writeFile(join(folder, 'console-token'), '');
  await writeFile(
    join(folder, 'compose.yaml'),
    text
      .replace(/^name: .*$/m, '')
      .replace('environment: BRIDGE_CONSOLE_TOKEN', `file: ${join(folder, 'console-token')}`)
      .replace('127.0.0.1:8080:', `127.0.0.1:${servicePort}:`)
      .replaceAll('127.0.0.1:8081:', `127.0.0.1:${consolePort}:`),
  );
  for (const [, name = ''] of readFileSync(join(root, 'docker/.env.example'), 'utf8').matchAll(/^(\w+)=/gm))
    secrets[name] = name.endsWith('MASTER_KEY') ? randomBytes(32).toString('base64') : randomBytes(24).toString('hex');
}

async function api(token: string, method: string, path: string, body: object): Promise<Record<string, string>> {
  const response = await fetch(`http://127.0.0.1:${servicePort}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect([path, response.ok, text]).toEqual([path, true, text]);
  return text === '' ? {} : (JSON.parse(text) as Record<string, string>);
}

/** What docker/README.md does in step 3; returns the key of the simulator. */
async function introduceBridge(): Promise<string> {
  const operator = secrets['SOURCING_ADMIN_TOKEN'] ?? '';
  const { id } = await api(operator, 'POST', '/admin/organisations', { name: 'Example' });
  const own = `/admin/organisations/${id}`;
  const cidrs = ['172.16.0.0/12', '192.168.0.0/16', '10.0.0.0/8'];
  await api(operator, 'PUT', `${own}/webhook-domains`, { domains: ['bridge'] });
  await api(operator, 'PUT', `${own}/allowed-networks`, { cidrs });
  await api(operator, 'PUT', `${own}/limits`, { enabled: false });
  const keyFor = async (...scopes: string[]) =>
    (await api(operator, 'POST', `${own}/api-keys`, { name: scopes.join(), scopes }))['key'] ?? '';
  secrets['BRIDGE_API_KEY'] = await keyFor('feeds', 'webhooks');
  const { signing_key: signingKey = '' } = await api(secrets['BRIDGE_API_KEY'], 'POST', '/api/webhooks', {
    name: 'bridge',
    url: 'https://bridge:8443/webhooks/service',
    triggers: ['SOURCING_EVENTS_FEED_UPDATED', 'LATEST_BIDS_FEED_UPDATED', 'AWARDS_FEED_UPDATED'],
  });
  secrets['BRIDGE_SIGNING_KEY'] = signingKey;
  return keyFor('manage', 'jobs', 'feeds', 'desk');
}

const config = ['--config', '/etc/sourcing-bridge/bridge.yaml'];
let simulator: string;
const simulate = () => {
  const inContainer = ['run', '--rm', '--no-deps', '-T', '-e', `SOURCING_API_KEY=${simulator}`, 'service'];
  return compose(...inContainer, 'simulate', '--base-url', 'http://service:8080', '--events', '1');
};
const filesAt = async (name: string) =>
  (await compose('exec', '-T', name, 'sh', '-c', 'ls /data/erp-inbox 2>/dev/null || true')).split('\n').filter(Boolean)
    .length;
/** How many notifications the process has stored, by its own metrics. */
const notificationsAt = async (name: string) => {
  const script =
    "fetch('http://127.0.0.1:8081/metrics', { headers: { authorization: 'Bearer ' + process.env.BRIDGE_CONSOLE_TOKEN } }).then(async (r) => console.log(await r.text()))";
  const text = await compose('exec', '-T', name, 'node', '--eval', script);
  return [...text.matchAll(/^bridge_notifications_total\{.*\} (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
};

describe.skipIf(skipped !== undefined)('the image', () => {
  beforeAll(async () => {
    folder = await scratchFolder();
    const took = async (what: string, work: () => Promise<unknown>) => {
      const began = performance.now();
      await work();
      print(`${what}: ${Math.round((performance.now() - began) / 1000)} s`);
    };
    await startEngine();
    await took('base', makeBase);
    await took('build', () =>
      docker('build', '--network', 'host', '--file', 'docker/Dockerfile', '--tag', 'sourcing-bridge', '.'),
    );
    await took('stand-ins', makeStandIns);
    await writeComposition();
    closeAtEnd(() => compose(...bothProfiles, 'down', '--volumes', '--timeout', '5'));
    print(await docker('images'));
  }, 20 * minuteMs);

  test('is an ordinary user’s, without npm, dangling links, types and source maps', async () => {
    const confined = ['--rm', '--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--network', 'none'];
    const shell = (script: string) => docker('run', ...confined, '--entrypoint', 'sh', 'sourcing-bridge', '-c', script);
    expect((await shell('id -u; id -g')).split('\n')).toEqual(['1000', '1000', '']);
    expect(await shell('grep CapEff /proc/self/status')).toContain('0000000000000000');
    expect(await shell('ls /usr/local/bin')).toBe('node\nsourcing-bridge\n');
    expect(
      await shell('find /usr/local /opt /app -xtype l; find /app/node_modules -name "*.ts" -o -name "*.map"'),
    ).toBe('');
    expect(await docker('run', ...confined, 'sourcing-bridge', '--help')).toContain('migrate');
  });

  test(
    'migrates, serves, is found healthy, and ends by SIGTERM with 0',
    async () => {
      await compose('up', '--detach', '--no-build', 'service');
      await untilHealthy('service');
      expect((await fetch(`http://127.0.0.1:${servicePort}/readyz`)).status).toBe(200);
      await compose('stop', 'service');
      expect(await inspect('service', '{{.State.ExitCode}}')).toBe('0');
      await compose('up', '--detach', '--no-build', 'service');
      await untilHealthy('service');
    },
    5 * minuteMs,
  );

  test(
    'carries awards with the profile bridge, also after kill -9',
    async () => {
      simulator = await introduceBridge();
      const password = randomBytes(12).toString('hex');
      const add = ['console', 'users', 'add', 'anna', '--role', 'operator', ...config].join(' ');
      await call('sh', [
        '-c',
        `echo ${password} | docker-compose --file ${folder}/compose.yaml --project-directory docker --project-name image --profile bridge run --rm -T bridge ${add}`,
      ]);
      await compose('--profile', 'bridge', 'up', '--detach', '--no-build');
      await untilHealthy('bridge');
      // It reads the authority when it starts.
      await compose('restart', 'service');
      await untilHealthy('service');
      await simulate();
      await expect.poll(() => filesAt('bridge'), slow).toBeGreaterThan(0);
      await expect.poll(() => notificationsAt('bridge'), slow).toBeGreaterThan(0);

      const before = await filesAt('bridge');
      process.kill(Number(await inspect('bridge', '{{.State.Pid}}')), 'SIGKILL');
      await expect.poll(() => inspect('bridge', '{{.RestartCount}}'), slow).toBe('1');
      await simulate();
      await untilHealthy('bridge');
      await expect.poll(() => filesAt('bridge'), slow).toBeGreaterThan(before);
      await compose('--profile', 'bridge', 'stop', 'bridge');
      expect(await inspect('bridge', '{{.State.ExitCode}}')).toBe('0');
    },
    10 * minuteMs,
  );

  test(
    'goes on with the profile roles; the service, which was not started again, trusts the receiver',
    async () => {
      const started = await inspect('service', '{{.State.StartedAt}}');
      await compose('--profile', 'roles', 'up', '--detach', '--no-build');
      const roles = ['bridge-receive', 'bridge-pull', 'bridge-push', 'bridge-intake', 'bridge-console'];
      for (const role of roles) await untilHealthy(role);
      expect((await fetch(`http://127.0.0.1:${consolePort}/healthz`)).status).toBe(200);
      const before = await filesAt('bridge-push');
      expect(before).toBeGreaterThan(0);
      await simulate();
      await expect.poll(() => notificationsAt('bridge-receive'), slow).toBeGreaterThan(0);
      await expect.poll(() => filesAt('bridge-push'), slow).toBeGreaterThan(before);
      expect(await inspect('service', '{{.State.StartedAt}}')).toBe(started);
      const doctor = await compose('exec', '-T', 'bridge-pull', 'sourcing-bridge', 'bridge', 'doctor', ...config);
      expect(doctor).toContain('a receiver answers at https://bridge:8443/healthz');
      print(await docker('stats', '--no-stream', '--format', '{{.Name}} {{.MemUsage}}'));
    },
    10 * minuteMs,
  );

  test(
    'leaves no volume without a name',
    async () => {
      await compose(...bothProfiles, 'down', '--timeout', '15');
      const names = (await docker('volume', 'ls', '--quiet')).split('\n').filter(Boolean);
      expect(names.length).toBeGreaterThan(3);
      expect(names.filter((name) => !name.startsWith('image_'))).toEqual([]);
    },
    5 * minuteMs,
  );
});
