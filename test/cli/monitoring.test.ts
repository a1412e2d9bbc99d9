/** Compares the metrics in the alert rules, the dashboard and the documentation with the metrics that exist. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { createRegistry } from '#platform/metrics.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { startTestService } from '../harness/test-service.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Rule {
  alert?: string;
  record?: string;
  expr: string;
  annotations?: Record<string, string>;
}
interface Dashboard {
  panels: {
    id: number;
    title: string;
    gridPos: { x: number; y: number; w: number; h: number };
    targets: { expr: string }[];
  }[];
}

const rules = (parse(read('docker/prometheus/alerts.yml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const dashboard = JSON.parse(read('docker/grafana/dashboards/bridge.json')) as Dashboard;

/** Names in an expression, without its functions, label names, label values and durations. */
function metricsIn(expression: string): string[] {
  const bare = expression
    .replace(/"[^"]*"/g, '')
    .replace(/\b(by|without)\s*\([^)]*\)/g, '')
    .replace(/\{[^}]*\}/g, '')
    .replace(/\[[^\]]*\]/g, '');
  return [...bare.matchAll(/[a-zA-Z_:][a-zA-Z0-9_:]*(?!\s*\()\b/g)]
    .map(([name]) => name)
    .filter((name) => name.includes('_') || name === 'up');
}

/**
 * The labels by which an expression selects or groups: `["bridge_outcomes_total", ["status"]]`. The labels after `by`
 * count for all metrics of the expression.
 */
function labelsIn(expression: string): [string, string[]][] {
  const grouped = [...expression.matchAll(/\bby\s*\(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/[\s,]+/));
  return metricsIn(expression).map((name) => {
    const selected = new RegExp(`${name}\\{([^}]*)\\}`).exec(expression)?.[1] ?? '';
    return [
      name,
      [...grouped, ...[...selected.matchAll(/(\w+)\s*[=!]/g)].map(([, label = '']) => label)].filter(Boolean),
    ];
  });
}

let own: Set<string>;
let known: Set<string>;
let labelsOf: Map<string, readonly string[]>;
beforeAll(async () => {
  const { registry } = await startTestBridge({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k' }],
    flows: [{ name: 'inbox', source: 'main', connector: 'file', settings: { directory: 'inbox' } }],
  });
  labelsOf = new Map(
    registry
      .getMetricsAsArray()
      .map((metric) => [metric.name, (metric as unknown as { labelNames: string[] }).labelNames]),
  );
  own = new Set(registry.getMetricsAsArray().map(({ name }) => name));
  const service = await startTestService();
  known = new Set([
    ...own,
    ...service.registry.getMetricsAsArray().map(({ name }) => name),
    ...createRegistry()
      .getMetricsAsArray()
      .map(({ name }) => name),
    ...rules.flatMap(({ record }) => record ?? []),
    // Prometheus's own.
    'up',
  ]);
});

test('the alert rules and the dashboard name only metrics that a bridge or a service has', () => {
  const expressions = [
    ...rules.map(({ expr }) => expr),
    ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ];
  expect(expressions.length).toBeGreaterThan(30);
  for (const expression of expressions) {
    const named = metricsIn(expression);
    expect([expression, named]).not.toEqual([expression, []]);
    expect([expression, named.filter((name) => !known.has(name))]).toEqual([expression, []]);
  }
});

test('every metric of the bridge is on the dashboard or in an alert rule', () => {
  const used = new Set(
    [...rules.map(({ expr }) => expr), ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))]
      .flatMap(metricsIn)
      // A recorded figure and the summary of a histogram end in more than the name of the metric.
      .map((name) => name.replace(/_(bucket|sum|count)$/, '')),
  );
  expect([...own].filter((name) => name.startsWith('bridge_') && !used.has(name))).toEqual([]);
});

test('the autoscalers of Kubernetes ask for metrics that a bridge has, and prometheus-adapter makes each of them known', () => {
  const scalers = parseAllDocuments(read('docker/kubernetes/components/autoscaling/bridge.yaml')).map(
    (document) => document.toJS() as { spec: { metrics: { external?: { metric: { name: string } } }[] } },
  );
  const asked = scalers.flatMap(({ spec }) => spec.metrics.flatMap(({ external }) => external?.metric.name ?? []));
  expect(asked).toEqual(['bridge_feed_lag_seconds', 'bridge_documents_due', 'bridge_intake_suppliers_due']);
  expect(asked.filter((name) => !own.has(name))).toEqual([]);
  const { rules: adapter } = parse(read('docker/kubernetes/components/autoscaling/prometheus-adapter.yaml')) as {
    rules: { external: { seriesQuery: string; name: { as: string }; metricsQuery: string }[] };
  };
  expect(adapter.external.map(({ name }) => name.as)).toEqual(asked);
  for (const { seriesQuery, name, metricsQuery } of adapter.external) {
    expect(seriesQuery).toContain(`{__name__="${name.as}",`);
    const query = metricsQuery.replace('<<.Series>>{<<.LabelMatchers>>}', name.as);
    for (const [metric, labels] of labelsIn(query))
      expect([metric, labels.filter((label) => labelsOf.get(name.as)?.includes(label) !== true)]).toEqual([
        name.as,
        [],
      ]);
  }
});

test('panels of the dashboard have numbers of their own and do not cover each other', () => {
  const panels = dashboard.panels.map(({ id, gridPos }) => ({ id, ...gridPos }));
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const covered = panels.filter((a, index) =>
    panels.slice(index + 1).some((b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h),
  );
  expect(covered).toEqual([]);
});

test('the alert rules and the dashboard select and group by labels that the metric has', () => {
  const expressions = [
    ...rules.map(({ expr }) => expr),
    ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ];
  const used = expressions
    .flatMap(labelsIn)
    .filter(([name, labels]) => name.startsWith('bridge_') && labels.length > 0);
  expect(used.length).toBeGreaterThan(25);
  for (const [name, labels] of used)
    expect([name, labels.filter((label) => labelsOf.get(name)?.includes(label) !== true)]).toEqual([name, []]);
});

test('an alert mentions only labels that its expression keeps', () => {
  for (const { alert, expr, annotations } of rules) {
    const kept = new Set(/\bby\s*\(([^)]*)\)/.exec(expr)?.[1]?.split(/[\s,]+/) ?? ['instance', 'job']);
    const named = [
      ...Object.values(annotations ?? {})
        .join(' ')
        .matchAll(/\$labels\.(\w+)/g),
    ].map(([, label = '']) => label);
    expect([alert, named.filter((label) => !kept.has(label))]).toEqual([alert, []]);
  }
});

describe('alert rules', () => {
  const alerts = rules.filter(({ alert }) => alert !== undefined);

  test('say what happened and what to do', () => {
    expect(alerts.length).toBeGreaterThan(5);
    for (const { alert, annotations } of alerts) {
      const { summary = '', action = '' } = annotations ?? {};
      expect([alert, summary.at(-1), action.at(-1)]).toEqual([alert, '.', '.']);
    }
  });

  test('name commands that exist', () => {
    const groups = ['add-bridge-commands', 'commands/bridge-webhooks', 'commands/bridge-alerts'];
    const commands = groups.map((name) => read(`src/cli/${name}.ts`)).join('\n');
    for (const { annotations } of alerts)
      for (const [, command] of (annotations?.['action'] ?? '').matchAll(/`bridge ([a-z-]+)/g))
        expect(commands).toMatch(new RegExp(`'${command}[ ']`));
  });
});

describe('the cases of the alert rules, docker/prometheus/alerts.test.yml,', () => {
  const { tests } = parse(read('docker/prometheus/alerts.test.yml')) as {
    tests: { promql_expr_test: { expr: string; exp_samples: { labels: string }[] }[] }[];
  };

  test('let each alert fire once, and stay quiet once', () => {
    const looks = tests.flatMap(({ promql_expr_test: all }) => all);
    // Each look names all alerts that fire, so one that it does not name is quiet.
    expect(new Set(looks.map(({ expr }) => expr))).toEqual(
      new Set(["count by (alertname) (ALERTS{alertstate='firing'})"]),
    );
    for (const { alert } of rules.filter((rule) => rule.alert !== undefined)) {
      const fires = looks.map(({ exp_samples: named }) =>
        named.some(({ labels }) => labels === `{alertname="${alert}"}`),
      );
      expect([alert, fires.includes(true), fires.includes(false)]).toEqual([alert, true, true]);
    }
  });

  const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
  test('come out as written (needs promtool, of Debian’s package prometheus)', ({ skip }) => {
    skip(!hasPromtool, 'promtool is not installed: apt-get install prometheus');
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'docker/prometheus/alerts.test.yml'], {
      cwd: root,
      encoding: 'utf8',
    });
    expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')]);
  });
});

test('the Prometheus operator gets the same rules, and the names of jobs for which they ask', () => {
  const folder = 'docker/kubernetes/components/monitoring';
  const { spec } = parse(read(`${folder}/alert-rules.yaml`)) as { spec: unknown };
  expect(spec).toEqual(parse(read('docker/prometheus/alerts.yml')));
  const asked = new Set(rules.flatMap(({ expr }) => [...expr.matchAll(/job="([^"]*)"/g)].map(([, job]) => job)));
  const monitors = parseAllDocuments(read(`${folder}/pod-monitors.yaml`)).map(
    (document) =>
      document.toJS() as {
        spec: { podMetricsEndpoints: { relabelings: { targetLabel: string; replacement: string }[] }[] };
      },
  );
  const made = monitors.flatMap((monitor) =>
    monitor.spec.podMetricsEndpoints.flatMap(({ relabelings }) =>
      relabelings.filter(({ targetLabel }) => targetLabel === 'job').map(({ replacement }) => replacement),
    ),
  );
  expect(new Set(made)).toEqual(asked);
  const { scrape_configs: configs } = parse(read('docker/prometheus/prometheus.yml')) as {
    scrape_configs: { job_name: string }[];
  };
  expect(new Set(configs.map(({ job_name: job }) => job))).toEqual(asked);
});

test('compose mounts existing files where Prometheus and Grafana look for them', () => {
  const compose = parse(read('docker/compose.yaml'), { merge: true }) as {
    services: Record<string, { volumes: string[] }>;
  };
  const mounted = ['prometheus', 'grafana'].flatMap((name) => compose.services[name]?.volumes ?? []);
  const ours = mounted.map((volume) => volume.split(':')[0] ?? '').filter((from) => from.startsWith('.'));
  expect(ours.length).toBeGreaterThan(2);
  expect(ours.filter((from) => !existsSync(join(root, 'docker', from)))).toEqual([]);
  const provider = parse(read('docker/grafana/provisioning/dashboards/bridge.yaml')) as {
    providers: { options: { path: string } }[];
  };
  expect(compose.services['grafana']?.volumes).toContain(
    `./grafana/dashboards:${provider.providers[0]?.options.path}:ro`,
  );
});
