/** Checks the systemd units: by systemd's own tools where they are installed, and against the command line. */
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bridgeRoles } from '#bridge/settings/bridge-deps.ts';
import { packageManifest } from '../../docker/package/manifest.ts';

const root = join(import.meta.dirname, '..', '..');
const folder = join(root, 'docker/systemd');
const services = globSync('*.service', { cwd: folder });
const read = (name: string) => readFileSync(join(folder, name), 'utf8');

/** The values of a directive, in order. */
const valuesOf = (name: string, directive: string) =>
  [...read(name).matchAll(new RegExp(`^${directive}=(.*)$`, 'gm'))].map(([, value = '']) => value);

/** The arguments of the command line in a unit. */
function argumentsOf(name: string): string[] {
  const launcher = `node_modules/sourcing-bridge/${packageManifest().bin['sourcing-bridge']} `;
  const [, args = ''] = (valuesOf(name, 'ExecStart')[0] ?? '').replaceAll('"', '').split(launcher);
  return args.split(' ');
}

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;

describe.runIf(hasSystemd)('systemd (needs systemd-analyze)', () => {
  test('finds no fault in the units', () => {
    const files = globSync('*.{service,timer}', { cwd: folder }).map((name) => join(folder, name));
    // Only the tools of the machine may be elsewhere.
    const verify = (paths: string[]) =>
      spawnSync('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', ...paths], { encoding: 'utf8' })
        .stderr.split('\n')
        .filter((line) => line !== '' && !line.includes('/usr/bin/node is not executable'));
    expect(verify(files)).toEqual([]);
  });

  test.each(services)('rates %s as docs/one-machine.md says', (name) => {
    const rated = execFileSync('systemd-analyze', ['security', '--offline=true', '--no-pager', join(folder, name)], {
      encoding: 'utf8',
    });
    const exposure = Number(/exposure level for \S+: ([\d.]+)/.exec(rated)?.[1]);
    // Other versions of systemd weigh a little differently.
    expect(exposure).toBeGreaterThan(0);
    expect(exposure).toBeLessThan(2);
  });
});

test('every unit has the same confinement, and writes below its own folder only', () => {
  const confinement = (name: string) =>
    read(name).slice(read(name).indexOf('NoNewPrivileges='), read(name).indexOf('# Not Memory'));
  expect(services).toHaveLength(5);
  expect(new Set(services.map(confinement)).size).toBe(1);
  expect(confinement('sourcing-bridge.service')).toMatch(/^ProtectSystem=strict$/m);
  for (const name of services) {
    const [data = ''] = /DATA_DIR=\/var\/lib\/(\S+)$/m.exec(read(name))?.slice(1) ?? [];
    expect([name, valuesOf(name, 'StateDirectory')[0]?.split(' ')]).toEqual([name, expect.arrayContaining([data])]);
    expect([name, valuesOf(name, 'DynamicUser')[0] === 'yes' || valuesOf(name, 'User').length === 1]).toEqual([
      name,
      true,
    ]);
  }
});

test('the units run commands and options that exist, and the template every role', () => {
  const commands = Object.fromEntries(services.map((name) => [name, argumentsOf(name)[0]]));
  expect(commands).toEqual({
    'sourcing-bridge.service': 'bridge',
    'sourcing-service.service': 'service',
    'sourcing-bridge@.service': 'bridge',
    'sourcing-migrate@.service': 'migrate',
    'sourcing-backup.service': 'backup',
  });
  for (const name of services) {
    const [command = '', ...rest] = argumentsOf(name);
    const help = execFileSync(process.execPath, [join(root, 'src/cli/main.ts'), command, '--help'], {
      encoding: 'utf8',
    });
    const options = rest.filter((word) => word.startsWith('--'));
    expect([name, options.filter((option) => !help.includes(`${option} `))]).toEqual([name, []]);
  }
  expect(argumentsOf('sourcing-bridge@.service').slice(-2)).toEqual(['--role', '%i']);
  const page = readFileSync(join(root, 'docs/one-machine.md'), 'utf8');
  for (const role of bridgeRoles.filter((each) => each !== 'all'))
    expect(page).toMatch(new RegExp(`[/\`]${role}\\.env\``));
});

test('secrets come from files that only root reads, each for its own role, and the key of the certificate goes to receivers', () => {
  expect(valuesOf('sourcing-bridge@.service', 'EnvironmentFile')).toEqual(['/etc/sourcing-bridge/%i.env']);
  expect(valuesOf('sourcing-migrate@.service', 'EnvironmentFile')).toEqual(['/etc/sourcing-bridge/migrate-%i.env']);
  const dropIns = globSync('*.d/*.conf', { cwd: folder });
  expect(dropIns).toEqual(['sourcing-bridge@receive.service.d/certificate.conf']);
  const [dropIn = ''] = dropIns;
  expect(basename(valuesOf(dropIn, 'LoadCredential')[0] ?? '')).toBe('tls-key.pem');
  expect(valuesOf(dropIn, 'Environment')).toEqual(['SOURCING__BRIDGE__TLS__KEY_FILE=%d/tls-key.pem']);
  const withKey = services.filter((name) => read(name).includes('tls-key'));
  expect(withKey).toEqual([]);
});
