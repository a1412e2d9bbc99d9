/**
 * Checks docker/kubernetes without a cluster: against Kubernetes' own schemas, name by name as the API server's strict
 * validation does, and every reference. What kustomize makes of it is checked in the same way where kubectl is installed.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { PodMonitor, PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Deployment } from 'kubernetes-models/apps/v1';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2';
import { Job } from 'kubernetes-models/batch/v1';
import { Ingress, NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { ConfigMap, Namespace, PersistentVolumeClaim, Service } from 'kubernetes-models/v1';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { bridgeRoles } from '../../src/bridge/settings/bridge-deps.ts';
import { readConfiguration } from '../../src/cli/configuration.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const repository = join(import.meta.dirname, '..', '..');
const root = join(repository, 'docker/kubernetes');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

/** Each kind with its schema, and the module that has its type. */
const kinds = {
  Deployment: [Deployment, 'kubernetes-models/apps/v1'],
  Job: [Job, 'kubernetes-models/batch/v1'],
  HorizontalPodAutoscaler: [HorizontalPodAutoscaler, 'kubernetes-models/autoscaling/v2'],
  Ingress: [Ingress, 'kubernetes-models/networking.k8s.io/v1'],
  NetworkPolicy: [NetworkPolicy, 'kubernetes-models/networking.k8s.io/v1'],
  PodDisruptionBudget: [PodDisruptionBudget, 'kubernetes-models/policy/v1'],
  ConfigMap: [ConfigMap, 'kubernetes-models/v1'],
  Namespace: [Namespace, 'kubernetes-models/v1'],
  PersistentVolumeClaim: [PersistentVolumeClaim, 'kubernetes-models/v1'],
  Service: [Service, 'kubernetes-models/v1'],
  PodMonitor: [PodMonitor, '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1'],
  PrometheusRule: [PrometheusRule, '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1'],
} as const;

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly envFrom: readonly { readonly secretRef: { readonly name: string } }[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly resources: { readonly requests: object; readonly limits: object };
  readonly securityContext: object;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}
interface Pod {
  readonly automountServiceAccountToken: boolean;
  readonly securityContext: object;
  readonly containers: readonly [Container];
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap?: { readonly name: string; readonly optional?: boolean };
    readonly secret?: { readonly secretName: string; readonly items?: readonly { readonly key: string }[] };
  }[];
}
interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: 'In';
    readonly values: readonly string[];
  }[];
}
interface NetworkPorts {
  readonly ports?: readonly { readonly port: number | string }[];
}
interface Manifest {
  readonly file: string;
  readonly kind: keyof typeof kinds;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly template: { readonly metadata: { readonly labels: Record<string, string> }; readonly spec: Pod };
    readonly selector: Selector & Record<string, string>;
    readonly podSelector: Selector;
    readonly ingress?: readonly NetworkPorts[];
    readonly ports: readonly { readonly targetPort: string; readonly port: number; readonly name: string }[];
    readonly scaleTargetRef: { readonly kind: string; readonly name: string };
    readonly minReplicas: number;
    readonly podMetricsEndpoints: readonly {
      readonly port: string;
      readonly authorization?: { readonly credentials: { readonly name: string; readonly key: string } };
    }[];
    readonly rules: readonly {
      readonly http: {
        readonly paths: readonly {
          readonly backend: { readonly service: { readonly name: string; readonly port: { readonly name: string } } };
        }[];
      };
    }[];
  };
}
interface Kustomization {
  readonly resources: readonly string[];
  readonly components?: readonly string[];
  readonly images?: readonly { readonly name: string; readonly newTag: string }[];
  readonly configMapGenerator?: readonly { readonly name: string; readonly files: readonly string[] }[];
}

const objectsIn = (file: string, text: string): Manifest[] =>
  parseAllDocuments(text).map((document) => ({ ...(document.toJS() as Manifest), file }));
const kustomizations = globSync('**/kustomization.yaml', { cwd: root }).map((file) => ({
  folder: dirname(file),
  ...(parse(read(file)) as Kustomization),
}));
const manifests = kustomizations.flatMap(({ folder, resources }) =>
  resources
    .filter((name) => name.endsWith('.yaml'))
    .flatMap((name) => objectsIn(join(folder, name), read(join(folder, name)))),
);
const ofKind = (...wanted: Manifest['kind'][]) => manifests.filter(({ kind }) => wanted.includes(kind));
const workloads = ofKind('Deployment', 'Job');
const podOf = (workload: Manifest) => workload.spec.template.spec;
const containerOf = (workload: Manifest) => podOf(workload).containers[0];
const selects = ({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Readonly<Record<string, string>>) =>
  Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
  matchExpressions.every(({ key, values }) => values.includes(labels[key] ?? ''));
const selected = (selector: Selector) =>
  workloads.filter((workload) => selects(selector, workload.spec.template.metadata.labels));
const portsOf = (workload: Manifest) => (containerOf(workload).ports ?? []).map(({ name }) => name);
const byName = (name: string) => {
  const found = workloads.find(({ metadata }) => metadata.name === name);
  if (!found) throw new Error(`no workload is named ${name}`);
  return found;
};

/** What the schemas say against each object: a value of a wrong type or form, or a required field that is missing. */
const invalid = (objects: readonly Manifest[]) =>
  objects.flatMap(({ file, ...object }) => {
    if (!Object.hasOwn(kinds, object.kind)) return [`${file}: no schema here is for the kind ${object.kind}`];
    const Schema = kinds[object.kind][0] as new (data: object) => { validate: () => void };
    try {
      new Schema(object).validate();
      return [];
    } catch (error) {
      return [`${file} ${object.kind} ${object.metadata.name}: ${(error as Error).message}`];
    }
  });

/** Names that no type has, found by the compiler, as the schemas allow further ones. */
async function unknownNames(objects: readonly Manifest[]): Promise<string> {
  const folder = await scratchFolder();
  await symlink(join(import.meta.dirname, 'node_modules'), join(folder, 'node_modules'));
  const lines = objects.map(
    (object, index) =>
      `export const object${index}: import('${kinds[object.kind][1]}').I${object.kind} = ${JSON.stringify({ ...object, file: undefined })};`,
  );
  const file = join(folder, 'objects.ts');
  await writeFile(file, lines.join('\n'));
  const compiler = join(repository, 'node_modules/typescript/bin/tsc');
  const options = [
    '--noEmit',
    '--ignoreConfig',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--typeRoots',
    join(repository, 'node_modules/@types'),
    '--types',
    'node',
    '--target',
    'esnext',
  ];
  const { stdout, stderr, status } = spawnSync(process.execPath, [compiler, ...options, file], { encoding: 'utf8' });
  return status === 0 ? '' : stdout + stderr;
}

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;
const overlays = globSync('overlays/*', { cwd: root });

describe('the manifests', () => {
  test('are what Kubernetes’ schemas and types allow, with no unknown name', async () => {
    expect(manifests.length).toBeGreaterThan(25);
    expect(invalid(manifests)).toEqual([]);
    expect(await unknownNames(manifests)).toBe('');
    // Both checks see what is wrong.
    const receive = byName('bridge-receive');
    const { selector: _, ...withoutSelector } = receive.spec;
    expect(invalid([{ ...receive, spec: withoutSelector } as Manifest])).toHaveLength(1);
    expect(await unknownNames([{ ...receive, spec: { ...receive.spec, replica: 2 } } as Manifest])).toContain(
      'replica',
    );
  });

  test.runIf(hasKubectl).each(overlays)(
    'of the overlay %s are so, too, as kubectl’s kustomize makes them (needs kubectl)',
    async (overlay) => {
      const rendered = objectsIn(
        overlay,
        execFileSync('kubectl', ['kustomize', join(root, overlay)], { encoding: 'utf8' }),
      );
      expect(rendered.length).toBeGreaterThan(15);
      expect(invalid(rendered)).toEqual([]);
      expect(await unknownNames(rendered)).toBe('');
      const configMaps = rendered.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata }) => metadata.name);
      const scaled = rendered
        .filter(({ kind }) => kind === 'HorizontalPodAutoscaler')
        .map(({ spec }) => spec.scaleTargetRef.name);
      for (const workload of rendered.filter(({ kind }) => kind === 'Deployment')) {
        expect(containerOf(workload).image).toBe('registry.example.com/sourcing-bridge:0.1.0');
        // Its autoscaler decides how many there are.
        expect('replicas' in workload.spec).toBe(!scaled.includes(workload.metadata.name));
        const named = podOf(workload).volumes.flatMap(({ configMap }) =>
          configMap && !configMap.optional ? configMap.name : [],
        );
        expect(named.filter((name) => !configMaps.includes(name))).toEqual([]);
      }
    },
  );

  test('are all in a kustomization, which names no file that does not exist', () => {
    const named = kustomizations.flatMap(({ folder, resources, components = [], configMapGenerator = [] }) => [
      join(folder, 'kustomization.yaml'),
      ...[...resources, ...components, ...configMapGenerator.flatMap(({ files }) => files)].map((name) =>
        join(folder, name),
      ),
    ]);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    // It is read by prometheus-adapter.
    const known = new Set([...named, 'components/autoscaling/prometheus-adapter.yaml']);
    expect(globSync('**/*.yaml', { cwd: root }).filter((path) => !known.has(path))).toEqual([]);
  });

  test('name the image of this version', () => {
    const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string };
    expect(new Set(workloads.map((workload) => containerOf(workload).image))).toEqual(new Set(['sourcing-bridge']));
    for (const { folder, images } of kustomizations.filter(({ folder: name }) => overlays.includes(name)))
      expect([folder, images]).toEqual([
        folder,
        [expect.objectContaining({ name: 'sourcing-bridge', newTag: version })],
      ]);
  });
});

test('each role of the bridge, and the service, is a Deployment with a budget; both have a Job for the tables', () => {
  const roles = bridgeRoles.filter((role) => role !== 'all');
  const bridge = (role: string) => ['bridge', '--config', '/etc/sourcing-bridge/bridge.yaml', '--role', role];
  expect(Object.fromEntries(workloads.map((workload) => [workload.metadata.name, containerOf(workload).args]))).toEqual(
    {
      ...Object.fromEntries(roles.map((role) => [`bridge-${role}`, bridge(role)])),
      'bridge-migrate': ['migrate', 'bridge'],
      service: ['service', '--config', '/etc/sourcing-bridge/service.yaml', '--host', '0.0.0.0'],
      'service-migrate': ['migrate', 'service'],
    },
  );
  const deployments = ofKind('Deployment')
    .map(({ metadata }) => metadata.name)
    .toSorted();
  const budgets = ofKind('PodDisruptionBudget').map(({ spec }) => selected(spec.selector)[0]?.metadata.name ?? '');
  expect(budgets.toSorted()).toEqual(deployments);
});

describe.each(workloads.map((workload) => [workload.metadata.name, workload] as const))('%s', (name, workload) => {
  const pod = podOf(workload);
  const container = containerOf(workload);

  test('is no root, has no capability and no token of the cluster, and writes to its volumes only', () => {
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 1000,
        runAsGroup: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(Object.keys(container.resources.limits)).toEqual(['memory']);
  });

  test('mounts what it has, and is probed at ports that it has', () => {
    const volumes = pod.volumes.map(({ name: volume }) => volume);
    expect(container.volumeMounts.map(({ name: volume }) => volume)).toEqual(volumes);
    const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe];
    expect(probes.every((probe) => probe !== undefined)).toBe(workload.kind === 'Deployment');
    for (const probe of probes.filter((each) => each !== undefined)) {
      expect(portsOf(workload)).toContain(probe.httpGet.port);
      expect(['/healthz', '/readyz']).toContain(probe.httpGet.path);
    }
    expect(container.livenessProbe?.httpGet.path).not.toBe('/readyz');
  });

  test('takes its secrets from a Secret of its own, whose example holds none', () => {
    expect(container.envFrom).toEqual([{ secretRef: { name } }]);
    for (const [key, value] of Object.entries(exampleOf(name)))
      expect([key, /^(unused)?$|^postgresql:\/\/\w+@/.test(value ?? '')]).toEqual([key, true]);
  });
});

function exampleOf(name: string) {
  return parseEnv(read(`secrets/${name}.env.example`));
}

test('there is a Secret for each workload, and each holds what its role needs and no more', () => {
  const secrets = globSync('secrets/*', { cwd: root }).map((file) => basename(file, '.env.example'));
  expect(secrets.toSorted()).toEqual(workloads.map(({ metadata }) => metadata.name).toSorted());
  expect(readFileSync(join(repository, 'docker/.gitignore'), 'utf8')).toContain('kubernetes/secrets/*.env\n');
  const wanted = (name: string) =>
    new Set(Object.entries(exampleOf(name)).flatMap(([key, value]) => (value === 'unused' ? [] : key)));
  const each = ['DATABASE_URL', 'SOURCING_MASTER_KEY', 'CONSOLE_TOKEN'];
  const needed = {
    'bridge-receive': each,
    'bridge-pull': [...each, 'CLOUD_API_KEY'],
    'bridge-push': [...each, 'CLOUD_API_KEY', 'ERP_TOKEN'],
    'bridge-intake': [...each, 'CLOUD_API_KEY', 'ERP_TOKEN'],
    'bridge-console': [...each, 'CLOUD_API_KEY', 'ERP_TOKEN'],
    service: [
      'DATABASE_URL',
      'SOURCING_ADMIN_TOKEN',
      'SOURCING_MASTER_KEY',
      'S3_ACCESS_KEY_ID',
      'S3_SECRET_ACCESS_KEY',
    ],
    'bridge-migrate': ['MIGRATION_DATABASE_URL', 'DATABASE_URL'],
    'service-migrate': ['MIGRATION_DATABASE_URL', 'DATABASE_URL'],
  };
  expect(Object.fromEntries(secrets.map((name) => [name, wanted(name)]))).toEqual(
    Object.fromEntries(Object.entries(needed).map(([name, keys]) => [name, new Set(keys)])),
  );
});

test('only receivers have the key of the certificate, and nobody that of an authority', () => {
  const withKey = workloads.filter((workload) =>
    podOf(workload).volumes.some(
      ({ secret }) => secret && secret.items?.every(({ key }) => key === 'tls.crt') !== true,
    ),
  );
  expect(withKey.map(({ metadata }) => metadata.name)).toEqual(['bridge-receive']);
});

describe('selectors, targets and ports', () => {
  test('a Deployment, a Service and an Ingress lead to the pods that are meant', () => {
    for (const workload of ofKind('Deployment')) expect(selected(workload.spec.selector)).toEqual([workload]);
    for (const { metadata, spec } of ofKind('Service')) {
      const { selector, ports } = spec;
      const [to, ...others] = selected({ matchLabels: selector });
      expect([to?.metadata.name, others]).toEqual([metadata.name, []]);
      for (const { targetPort } of ports) expect(to && portsOf(to)).toContain(targetPort);
    }
    for (const { backend } of ofKind('Ingress').flatMap(({ spec }) => spec.rules.flatMap(({ http }) => http.paths))) {
      const service = ofKind('Service').find(({ metadata }) => metadata.name === backend.service.name);
      expect(service?.spec.ports.map(({ name }) => name)).toContain(backend.service.port.name);
    }
  });

  test('every pod is under a policy for both directions, and a policy opens only ports that its pods have', () => {
    const closed = ofKind('NetworkPolicy').filter(({ spec }) => JSON.stringify(spec).includes('["Ingress","Egress"]'));
    for (const { metadata } of workloads)
      expect([
        metadata.name,
        closed.filter(({ spec }) => selected(spec.podSelector).some((each) => each.metadata.name === metadata.name))
          .length,
      ]).toEqual([metadata.name, 1]);
    for (const { metadata, spec } of ofKind('NetworkPolicy')) {
      const pods = selected(spec.podSelector);
      expect([metadata.name, pods.length]).not.toEqual([metadata.name, 0]);
      for (const { port } of (spec.ingress ?? []).flatMap(({ ports = [] }) => ports))
        for (const pod of pods)
          expect([metadata.name, portsOf(pod)]).toEqual([metadata.name, expect.arrayContaining([port])]);
    }
  });

  test('an autoscaler has a Deployment, and Prometheus reads each process of the bridge and the service', () => {
    const scalers = ofKind('HorizontalPodAutoscaler');
    expect(scalers.map(({ metadata }) => metadata.name).toSorted()).toEqual([
      'bridge-intake',
      'bridge-pull',
      'bridge-push',
      'bridge-receive',
      'service',
    ]);
    for (const { metadata, spec } of scalers) {
      expect(spec.scaleTargetRef).toMatchObject({ kind: 'Deployment', name: metadata.name });
      byName(metadata.name);
    }
    const monitors = ofKind('PodMonitor').map(({ spec }) => ({ ...spec, watched: selected(spec.selector) }));
    expect(monitors.flatMap(({ watched }) => watched.map(({ metadata }) => metadata.name)).toSorted()).toEqual(
      ofKind('Deployment')
        .map(({ metadata }) => metadata.name)
        .toSorted(),
    );
    for (const { watched, podMetricsEndpoints } of monitors)
      for (const { port, authorization } of podMetricsEndpoints) {
        for (const pod of watched) expect(portsOf(pod)).toContain(port);
        // The service's metrics are for everybody who reaches its port.
        const { name = 'bridge-console', key = 'CONSOLE_TOKEN' } = authorization?.credentials ?? {};
        expect(Object.keys(exampleOf(name))).toContain(key);
      }
  });
});

describe.each(overlays)('%s', (overlay) => {
  const { configMapGenerator = [], resources } = kustomizations.find(({ folder }) => folder === overlay) ?? {
    resources: [],
  };
  const used = workloads.filter(({ file }) => resources.some((name) => join(overlay, name) === dirname(file)));
  /** Secrets as an operator fills them in. */
  const filled = (name: string) =>
    Object.fromEntries(
      Object.entries(exampleOf(name)).map(([key, value]) => [
        key,
        value || (key.endsWith('_URL') ? 'postgresql://u:p@db:5432/sourcing' : Buffer.alloc(32).toString('base64')),
      ]),
    );

  test('generates the settings that its processes read', () => {
    const files = configMapGenerator.map(({ name, files: [file] }) => [name, file]);
    for (const workload of used.filter(({ kind }) => kind === 'Deployment')) {
      const program = containerOf(workload).args[0];
      expect(files).toContainEqual([`${program}-settings`, `${program}.yaml`]);
      expect(podOf(workload).volumes).toContainEqual({ name: 'settings', configMap: { name: `${program}-settings` } });
    }
  });

  /** The settings as the process reads them, and its ports by name. */
  const readBy = (workload: Manifest) => {
    const { args, env: own = [], ports = [] } = containerOf(workload);
    const env = {
      ...filled(workload.metadata.name),
      ...Object.fromEntries(own.map(({ name, value }) => [name, value])),
    };
    const file = workload.kind === 'Job' ? undefined : join(root, overlay, `${args[0]}.yaml`);
    const numbers = Object.fromEntries(ports.map(({ name, containerPort }) => [name, containerPort]));
    return { settings: readConfiguration(file, {}, env), numbers, token: env['CONSOLE_TOKEN'] };
  };

  test('has settings that every role of the bridge accepts with its own secrets, and that lead to its ports and volumes', () => {
    const roles = used.filter(({ kind, metadata }) => kind === 'Deployment' && metadata.name.startsWith('bridge-'));
    expect(roles.length).toBe(bridgeRoles.length - 1);
    for (const role of roles) {
      const { name } = role.metadata;
      const { settings, numbers, token } = readBy(role);
      const { bridge } = settings;
      const webhook = name === 'bridge-receive' ? { webhook: bridge.port } : {};
      expect(numbers).toEqual({ console: bridge.console_port, ...webhook });
      expect(bridge).toMatchObject({
        host: name === 'bridge-receive' ? '0.0.0.0' : '127.0.0.1',
        console_host: '0.0.0.0',
        console_pages: name === 'bridge-console',
        console_token: token,
        tls: { cert_file: '/tls/tls.crt', key_file: '/tls/tls.key' },
      });
      const mounted = containerOf(role).volumeMounts.some(({ mountPath }) => mountPath === '/tls');
      expect([name, mounted]).toEqual([name, ['bridge-receive', 'bridge-pull', 'bridge-push'].includes(name)]);
    }
  });

  test('lets the service and the Jobs read their settings', () => {
    for (const service of used.filter(({ metadata }) => metadata.name === 'service')) {
      const { settings, numbers } = readBy(service);
      expect(numbers).toEqual({ http: settings.service.port });
    }
    const jobs = used.filter(({ kind }) => kind === 'Job');
    expect(jobs.length).toBeGreaterThan(0);
    for (const job of jobs) {
      const { migration_database_url: owner, database_url: worker } = readBy(job).settings;
      expect([owner, worker]).toEqual([expect.stringContaining(':p@'), expect.not.stringContaining(':p@')]);
    }
  });
});
