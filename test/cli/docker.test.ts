/** Checks the Docker files as text, so that no Docker engine is needed. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfiguration } from '#cli/configuration.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Service {
  image: string;
  command: string[];
  profiles?: string[];
  environment: Record<string, string>;
  volumes?: string[];
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

  test('copies only files that exist, and the builder gets all of them', () => {
    expect(copied.length).toBeGreaterThan(3);
    const sent = read('docker/Dockerfile.dockerignore').match(/^!.+$/gm) ?? [];
    for (const name of copied) {
      expect(existsSync(join(root, name))).toBe(true);
      expect(sent).toContain(`!${name}`);
    }
  });

  test('runs as an ordinary user, with Node 24 and the command line as its entry', () => {
    expect(dockerfile).toMatch(/^USER node$/m);
    expect(dockerfile.match(/^FROM .*/gm)).toEqual([
      'FROM node:24-slim AS packages',
      'FROM node:24-slim AS pages',
      'FROM node:24-slim',
    ]);
    expect(dockerfile).toContain('ENTRYPOINT ["node", "src/cli/main.ts"]');
  });

  test('has every package that the source imports, since it has no devDependencies', () => {
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
    const known = new Set([...Object.keys(dependencies), 'sourcing-bridge', ...builtinModules]);
    // The console's pages are built in a stage of their own, which has devDependencies.
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

const secretsOfBridge = { BRIDGE_API_KEY: 'k', BRIDGE_SIGNING_KEY: 's', BRIDGE_CONSOLE_TOKEN: 't'.repeat(32) };
const ofBridge = ['BRIDGE_DB_PASSWORD', 'BRIDGE_MASTER_KEY', 'BRIDGE_CONSOLE_TOKEN'];

describe('the composition', () => {
  const servicesOf = (profile: string | undefined) =>
    Object.keys(compose.services).filter((name) => compose.services[name]?.profiles?.[0] === profile);

  test('is PostgreSQL, Valkey, the service and the bridge, each with a health check', () => {
    expect(servicesOf(undefined)).toEqual(['postgres', 'valkey', 'service-migrate', 'service']);
    expect(servicesOf('bridge')).toEqual(['bridge', 'bridge-migrate']);
    for (const name of ['postgres', 'valkey']) expect(compose.services[name]).toHaveProperty('healthcheck.test');
    expect(read('docker/Dockerfile')).toMatch(/^HEALTHCHECK /m);
    for (const name of ['bridge', ...servicesOf('roles')])
      expect(compose.services[name]?.environment['HEALTH_URL']).toBe('http://127.0.0.1:8081/healthz');
  });

  test('has, instead of the one bridge, a container for each role', () => {
    const commandOf = (name: string) => compose.services[name]?.command ?? [];
    const [all = ''] = servicesOf('bridge');
    expect(servicesOf('roles').map((name) => commandOf(name))).toEqual(
      ['receive', 'pull', 'push', 'console'].map((role) => [...commandOf(all), '--role', role]),
    );
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
    ['valkey', []],
    ['service-migrate', ['OWNER_DB_PASSWORD']],
    ['service', ['SERVICE_DB_PASSWORD', 'SOURCING_ADMIN_TOKEN', 'SERVICE_MASTER_KEY']],
    ['bridge', [...ofBridge, 'BRIDGE_API_KEY', 'BRIDGE_SIGNING_KEY']],
    ['bridge-migrate', ['OWNER_DB_PASSWORD']],
    ['bridge-receive', [...ofBridge, 'BRIDGE_SIGNING_KEY']],
    ['bridge-pull', [...ofBridge, 'BRIDGE_API_KEY']],
    ['bridge-push', [...ofBridge, 'BRIDGE_API_KEY']],
    ['bridge-console', [...ofBridge, 'BRIDGE_API_KEY']],
  ])('gives the container %s its own secrets and no others', (name, secrets) => {
    const given = JSON.stringify(compose.services[name]);
    expect(new Set([...given.matchAll(/\$\{(\w+)/g)].map(([, secret]) => secret))).toEqual(new Set(secrets));
  });

  test('keeps the keys of service and bridge in volumes of their own; they share only a certificate', () => {
    const volumesOf = (name: string) =>
      (compose.services[name]?.volumes ?? [])
        .map((volume) => volume.split(':')[0])
        .filter((volume) => !volume?.startsWith('.'));
    for (const name of ['bridge', 'bridge-receive', 'bridge-pull', 'bridge-push', 'bridge-console'])
      expect(volumesOf(name)).toEqual(['bridge-data', 'certificates']);
    expect(volumesOf('service')).toEqual(['service-data', 'certificates']);
    expect(readConfiguration(join(root, 'docker/bridge.yaml'), {}, secretsOfBridge).bridge.ca_file).toBe(
      compose.services['service']?.environment['NODE_EXTRA_CA_CERTS'],
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
    const env = { ...compose.services[name]?.environment };
    if (name !== 'service') env['BRIDGE_CONSOLE_TOKEN'] = secretsOfBridge.BRIDGE_CONSOLE_TOKEN;
    env['SOURCING_MASTER_KEY'] = Buffer.alloc(32).toString('base64');
    env['DATABASE_URL'] = env['DATABASE_URL']?.replace(/\$\{.*?\}/, 'password') ?? '';
    const file = name !== 'service' ? join(root, 'docker/bridge.yaml') : undefined;
    const settings = readConfiguration(file, {}, env);
    expect(settings).toMatchObject({
      database_url: `postgresql://sourcing_${name === 'service' ? 'service' : 'bridge'}:password@postgres:5432/sourcing`,
      redis_url: 'redis://valkey:6379',
      bridge: { public_host: name === 'service' ? 'localhost' : 'bridge' },
    });
  });
});
