/**
 * Checks the files for containers without an engine: as text, by a linter, and the settings, Valkey's command and
 * `certificate` by running them. test/image has an engine.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { text as textIn } from 'node:stream/consumers';
import { validate as lintDockerfile } from 'dockerfile-utils';
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { openFlows } from '#bridge/connectors/open-flows.ts';
import { bridgeRoles } from '#bridge/settings/bridge-deps.ts';
import { readConfiguration } from '#cli/configuration.ts';
import { systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { eventually } from '../harness/eventually.ts';
import { freePort } from '../harness/free-port.ts';
import { hasRedisServer } from '../harness/redis.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Service {
  image: string;
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  entrypoint?: string[];
  command: string[];
  profiles?: string[];
  environment?: Record<string, string>;
  volumes?: string[];
  tmpfs?: string[];
  healthcheck?: object;
  secrets?: string[];
}

const compose = parse(read('docker/compose.yaml'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, null>;
  secrets: Record<string, { environment: string }>;
};

describe('the image', () => {
  const dockerfile = read('docker/Dockerfile');
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names]) =>
    (names ?? '').split(' '),
  );

  test('is a Dockerfile in which the linter of Docker’s editor finds nothing', () => {
    expect(lintDockerfile(dockerfile)).toEqual([]);
    expect(lintDockerfile(dockerfile.replace('--interval', '--intervall'))).toHaveLength(1);
  });

  test('copies only files that exist, and the builder gets all of them', () => {
    expect(copied.length).toBeGreaterThan(3);
    const sent = read('docker/Dockerfile.dockerignore').match(/^!.+$/gm) ?? [];
    for (const name of copied) {
      expect(existsSync(join(root, name))).toBe(true);
      expect(sent).toContain(`!${name}`);
    }
  });

  test('runs as an ordinary user, with this very version of Node, and the command line as its entry', () => {
    expect(dockerfile).toMatch(/^USER 1000:1000$/m);
    expect(dockerfile.match(/^FROM .*/gm)).toEqual([
      'FROM ${BASE} AS packages',
      'FROM ${BASE} AS build',
      'FROM ${BASE}',
    ]);
    // The version that the tests run with.
    expect(dockerfile).toMatch(new RegExp(`^ARG BASE=node:${process.versions.node.replaceAll('.', '\\.')}-slim$`, 'm'));
    expect(dockerfile).toMatch(/^STOPSIGNAL SIGTERM$/m);
    expect(dockerfile).toContain('ENTRYPOINT ["node", "src/cli/launch.js"]');
  });

  test('has every package that the source imports, since it has no devDependencies', () => {
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
    const known = new Set([...Object.keys(dependencies), 'sourcing-bridge', ...builtinModules]);
    // The console's pages hold what they need of their packages.
    const exclude = ['**/*.test.ts', 'src/console/web/**'];
    const files = globSync(['src/**/*.ts', 'connectors/**/*.ts'], { cwd: root, exclude });
    expect(files.length).toBeGreaterThan(50);
    const missing = files.flatMap((file) =>
      [...read(file).matchAll(/^(?:import|export) (?!type )[^;]*?from '([^'#./][^']*)'|import\('([^'#./][^']*)'\)/gms)]
        .map(([, from, dynamic]) => from ?? dynamic ?? '')
        .filter((name) => !name.startsWith('node:') && !known.has(/^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? ''))
        .map((name) => `${file} imports ${name}`),
    );
    expect(missing).toEqual([]);
  });
});

/** The environment that Compose gives the container, with secrets of the forms that .env.example tells to make. */
function environmentOf(name: string): Record<string, string> {
  const secret = (variable: string) =>
    variable.endsWith('MASTER_KEY') ? Buffer.alloc(32).toString('base64') : `of-${variable}-`.padEnd(40, 'x');
  return Object.fromEntries(
    Object.entries(compose.services[name]?.environment ?? {}).map(([key, text]) => [
      key,
      text.replaceAll(/\$\{(\w+)[^}]*\}/g, (_, variable: string) => secret(variable)),
    ]),
  );
}

/** Opens the connectors of all flows, as the program does. Rejects with what is wrong with their settings. */
async function openConnectors(bridge: ReturnType<typeof readConfiguration>['bridge']) {
  await using opened = new AsyncDisposableStack();
  const dataDir = await scratchFolder();
  return (await openFlows({ settings: bridge, dataDir, log: silentLogger, clock: systemClock }, opened)).length;
}

const ofBridge = ['BRIDGE_DB_PASSWORD', 'BRIDGE_MASTER_KEY', 'BRIDGE_CONSOLE_TOKEN', 'VALKEY_PASSWORD'];
const confined = Object.keys(compose.services).filter((name) => name !== 'prometheus' && name !== 'grafana');

describe('the composition', () => {
  const servicesOf = (profile: string | undefined) =>
    Object.keys(compose.services).filter((name) => compose.services[name]?.profiles?.[0] === profile);

  test('is PostgreSQL, Valkey, the service and the bridge, each with a health check', () => {
    expect(servicesOf(undefined)).toEqual(['postgres', 'valkey', 'service-migrate', 'service']);
    expect(servicesOf('bridge')).toEqual(['bridge', 'bridge-migrate', 'bridge-certificate']);
    for (const name of ['postgres', 'valkey']) expect(compose.services[name]).toHaveProperty('healthcheck.test');
    // The server that the image starts while it makes the database has no TCP.
    expect(compose.services['postgres']).toHaveProperty('healthcheck.test[1]', 'pg_isready');
    expect(compose.services['postgres']?.healthcheck).toMatchObject({
      test: expect.arrayContaining(['--host', '127.0.0.1']) as string[],
    });
    expect(read('docker/Dockerfile')).toMatch(/^HEALTHCHECK /m);
    for (const name of ['bridge', ...servicesOf('roles')])
      expect(compose.services[name]?.environment?.['HEALTH_URL']).toBe('http://127.0.0.1:8081/healthz');
  });

  test('names every image by an exact version', () => {
    const foreign = Object.values(compose.services).filter(({ image }) => image !== 'sourcing-bridge');
    expect(foreign.length).toBeGreaterThan(1);
    expect(foreign.filter(({ image }) => !/:v?\d+\.\d+(\.\d+)?$/.test(image))).toEqual([]);
  });

  test.each(confined)('lets %s neither be root, nor have a capability, nor write to its image', (name) => {
    const { image, user, read_only, cap_drop, security_opt } = compose.services[name] ?? {};
    expect([read_only, cap_drop, security_opt]).toEqual([true, ['ALL'], ['no-new-privileges:true']]);
    // The image of the programs has a user of its own.
    expect(image === 'sourcing-bridge' || /^[1-9]\d*:[1-9]\d*$/.test(user ?? '')).toBe(true);
  });

  test('has, instead of the one bridge, a container for each role', () => {
    const commandOf = (name: string) => compose.services[name]?.command ?? [];
    const [all = ''] = servicesOf('bridge');
    expect(servicesOf('roles').map((name) => commandOf(name))).toEqual(
      bridgeRoles.filter((role) => role !== 'all').map((role) => [...commandOf(all), '--role', role]),
    );
    expect(commandOf('bridge-certificate')).toEqual(['certificate', ...commandOf(all).slice(1)]);
  });

  test('gives the key of the local authority to no process with a role, and that of its certificate to receivers only', () => {
    const with_ = (volume: string) =>
      Object.keys(compose.services).filter((name) =>
        compose.services[name]?.volumes?.some((mount) => mount.startsWith(`${volume}:`)),
      );
    expect(with_('authority')).toEqual(['bridge-certificate']);
    expect(with_('receiver-key')).toEqual(['bridge', 'bridge-certificate', 'bridge-receive']);
    // The same whichever profile runs: the service that trusts its authority is not started again.
    for (const profile of ['bridge', 'roles'])
      expect(compose.services['bridge-certificate']?.profiles).toContain(profile);
    expect(readConfiguration(join(root, 'docker/bridge.yaml'), {}, environmentOf('bridge')).bridge.tls).toEqual({
      cert_file: '/certificates/bridge.pem',
      key_file: '/tls/bridge-key.pem',
    });
  });

  test.each(
    servicesOf('bridge')
      .concat(servicesOf('roles'))
      .filter((name) => name.startsWith('bridge')),
  )('lets %s read its settings, and open its connectors, with exactly its environment', async (name) => {
    const { command = [] } = compose.services[name] ?? {};
    const { bridge } = readConfiguration(
      command.includes('--config') ? join(root, 'docker/bridge.yaml') : undefined,
      {},
      environmentOf(name),
      { withoutSecrets: command[0] === 'certificate' },
    );
    expect(await openConnectors(bridge)).toBe(command.includes('--config') ? 1 : 0);
  });

  test('runs the command of bridge-certificate with exactly its environment: the files are where its volumes are', async () => {
    const { command = [] } = compose.services['bridge-certificate'] ?? {};
    const folder = await scratchFolder();
    // Its volumes, and its data folder, are folders here.
    const here = (text: string) => text.replaceAll(/\/(certificates|tls|data)\b/g, `${folder}/$1`);
    for (const name of ['certificates', 'tls', 'data']) await mkdir(join(folder, name));
    const config = join(folder, 'bridge.yaml');
    await writeFile(config, here(read('docker/bridge.yaml')));
    const args = command.map((each) => (each === '/etc/sourcing-bridge/bridge.yaml' ? config : each));
    const program = spawn(process.execPath, [join(root, 'src/cli/launch.js'), ...args], {
      env: { DATA_DIR: join(folder, 'data'), ...environmentOf('bridge-certificate') },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [errors, [code]] = await Promise.all([textIn(program.stderr), once(program, 'exit')]);
    expect([code, errors]).toEqual([0, '']);
    for (const file of ['certificates/bridge.pem', 'certificates/ca.pem', 'tls/bridge-key.pem'])
      expect(existsSync(join(folder, file))).toBe(true);
  });

  test('leaves no volume without a name: every folder that an image declares as one is a volume or in memory', () => {
    const declared: Record<string, string> = {
      'sourcing-bridge': '/data',
      postgres: '/var/lib/postgresql',
      'valkey/valkey': '/data',
      'prom/prometheus': '/prometheus',
    };
    const left = Object.entries(compose.services).filter(([, { image, volumes = [], tmpfs = [] }]) => {
      const folder = declared[image.split(':')[0] ?? ''];
      const mounted = [...volumes.map((volume) => volume.split(':')[1]), ...tmpfs.map((mount) => mount.split(':')[0])];
      return folder !== undefined && !mounted.includes(folder);
    });
    expect(left.map(([name]) => name)).toEqual([]);
    expect(read('docker/Dockerfile').match(/^VOLUME .*$/gm)).toEqual([`VOLUME ${declared['sourcing-bridge']}`]);
  });

  test('takes every secret from .env, whose example names them all and holds none', () => {
    const text = read('docker/compose.yaml');
    const wanted = new Set([...text.matchAll(/\$\{(\w+)/g)].map(([, name]) => name));
    const example = [...read('docker/.env.example').matchAll(/^(\w+)=(.*)$/gm)];
    expect(new Set(example.map(([, name]) => name))).toEqual(wanted);
    expect(example.map(([, , value]) => value)).toEqual(example.map(() => ''));
    expect(read('docker/.gitignore')).toMatch(/^\.env$/m);
  });

  test.each([
    ['postgres', ['POSTGRES_PASSWORD', 'OWNER_DB_PASSWORD', 'SERVICE_DB_PASSWORD', 'BRIDGE_DB_PASSWORD']],
    ['valkey', ['VALKEY_PASSWORD']],
    ['service-migrate', ['OWNER_DB_PASSWORD']],
    ['service', ['SERVICE_DB_PASSWORD', 'SOURCING_ADMIN_TOKEN', 'SERVICE_MASTER_KEY', 'VALKEY_PASSWORD']],
    ['bridge', [...ofBridge, 'BRIDGE_API_KEY', 'BRIDGE_SIGNING_KEY']],
    ['bridge-migrate', ['OWNER_DB_PASSWORD']],
    ['bridge-receive', [...ofBridge, 'BRIDGE_SIGNING_KEY']],
    ['bridge-pull', [...ofBridge, 'BRIDGE_API_KEY']],
    ['bridge-push', [...ofBridge, 'BRIDGE_API_KEY']],
    ['bridge-intake', [...ofBridge, 'BRIDGE_API_KEY']],
    ['bridge-console', [...ofBridge, 'BRIDGE_API_KEY']],
    ['bridge-certificate', []],
  ])('gives the container %s its own secrets and no others', (name, secrets) => {
    const given = JSON.stringify(compose.services[name]);
    expect(new Set([...given.matchAll(/\$\{(\w+)/g)].map(([, secret]) => secret))).toEqual(new Set(secrets));
  });

  test('keeps the keys of service and bridge in volumes of their own; they share only a certificate', () => {
    const volumesOf = (name: string) =>
      (compose.services[name]?.volumes ?? [])
        .map((volume) => volume.split(':')[0])
        .filter((volume) => !volume?.startsWith('.'));
    expect(volumesOf('bridge')).toEqual(['bridge-data', 'certificates', 'receiver-key']);
    expect(volumesOf('service')).toEqual(['service-data', 'certificates']);
    expect(readConfiguration(join(root, 'docker/bridge.yaml'), {}, environmentOf('bridge')).bridge.ca_file).toBe(
      compose.services['service']?.environment?.['NODE_EXTRA_CA_CERTS'],
    );
  });

  test('lets Prometheus read the metrics of every process of the bridge, by the token that the bridge wants', () => {
    const { scrape_configs } = parse(read('docker/prometheus/prometheus.yml')) as {
      scrape_configs: {
        job_name: string;
        authorization?: { credentials_file: string };
        dns_sd_configs?: { names: string[] }[];
      }[];
    };
    const [bridge] = scrape_configs.filter(({ job_name }) => job_name === 'bridge');
    expect(bridge?.dns_sd_configs?.[0]?.names).toEqual([
      'bridge',
      ...servicesOf('roles').filter((name) => compose.services[name]?.command[0] === 'bridge'),
    ]);
    expect(compose.services['prometheus']?.secrets).toEqual(['console_token']);
    expect(bridge?.authorization?.credentials_file).toBe('/run/secrets/console_token');
    expect(compose.secrets).toEqual({ console_token: { environment: 'BRIDGE_CONSOLE_TOKEN' } });
  });

  test('keeps lasting data in volumes that are declared', () => {
    const used = Object.values(compose.services).flatMap(({ volumes = [] }) =>
      volumes.map((volume) => volume.split(':')[0]),
    );
    expect(new Set(used.filter((name) => !name?.startsWith('.')))).toEqual(new Set(Object.keys(compose.volumes)));
  });

  test.each(['service', 'bridge', 'bridge-push'])('sets only known settings of the %s', (name) => {
    const file = name !== 'service' ? join(root, 'docker/bridge.yaml') : undefined;
    const settings = readConfiguration(file, {}, environmentOf(name));
    expect(settings).toMatchObject({
      database_url: expect.stringMatching(
        name === 'service' ? /^postgresql:\/\/sourcing_service:/ : /^postgresql:\/\/sourcing_bridge:/,
      ) as string,
      redis_url: expect.stringMatching(/^redis:\/\/:.+@valkey:6379$/) as string,
      bridge: { public_host: name === 'service' ? 'localhost' : 'bridge' },
    });
  });

  test.runIf(hasRedisServer())('starts Valkey so that it asks for the password and ends by SIGTERM', async () => {
    const { entrypoint = [], command } = compose.services['valkey'] ?? { command: [] };
    const port = await freePort();
    const folder = await scratchFolder();
    // Here the program has the name of the one that it was made of.
    await symlink('/usr/bin/redis-server', join(folder, 'valkey-server'));
    const script = command.join('').replaceAll('$$', '$').replace('save ""', `save ""\nport ${port}`);
    const [shell, ...args] = [...entrypoint, script];
    const env = { PATH: `${folder}:${process.env['PATH']}`, VALKEY_PASSWORD: 'of-valkey' };
    const server = spawn(shell, args, { env, stdio: 'ignore', cwd: folder });
    const ended = once(server, 'exit');
    onTestFinished(async () => {
      server.kill('SIGKILL');
      await ended;
    });
    const answer = async (password: string) => {
      const redis = new Redis({ port, password, lazyConnect: true, retryStrategy: () => null });
      redis.on('error', () => undefined);
      return redis
        .ping()
        .then(String, String)
        .finally(() => redis.disconnect());
    };
    await eventually('Valkey answers', async () => (await answer('of-valkey')) === 'PONG');
    expect(await answer('another')).toMatch(/WRONGPASS|NOAUTH|Connection is closed/);
    const listed = await readFile(`/proc/${server.pid}/cmdline`, 'utf8');
    expect([listed.includes('valkey-server'), listed.includes('of-valkey')]).toEqual([true, false]);
    server.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});

describe.each(globSync('docker/kubernetes/overlays/*', { cwd: root }))('%s', (overlay) => {
  test('has settings that the programs accept, down to those of its connectors', async () => {
    const example = read('docker/kubernetes/secrets/bridge-push.env.example');
    const named = [...example.matchAll(/^(\w+)=/gm)].map(([, name = '']) => name);
    const secrets: Record<string, string> = {
      ...Object.fromEntries(named.map((name) => [name, 'x'.repeat(40)])),
      DATABASE_URL: 'postgresql://u:p@db:5432/sourcing',
      SOURCING_MASTER_KEY: Buffer.alloc(32).toString('base64'),
    };
    expect(await openConnectors(readConfiguration(join(root, overlay, 'bridge.yaml'), {}, secrets).bridge)).toBe(1);
  });
});
