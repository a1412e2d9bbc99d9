/**
 * The metrics of Prometheus registries as OpenTelemetry's, so that each metric is declared once and both ways show the
 * same values. Counters become monotonic sums, gauges stay gauges, histograms keep their buckets.
 */
import type { Attributes, HrTime } from '@opentelemetry/api';
import { ValueType } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics';
import type { MetricObjectWithValues, MetricValueWithName, Registry } from 'prom-client';

type Metric = MetricObjectWithValues<MetricValueWithName<string>>;

/** `add` adds the metrics of a registry, also those that are declared later. */
export function createMetricProducer({ resource, scope }: { resource: Resource; scope: string }): {
  producer: MetricProducer;
  add: (registry: Registry) => void;
} {
  const registries = new Set<Registry>();
  const startTime = hrTime(Date.now());
  return {
    add: (registry) => void registries.add(registry),
    producer: {
      async collect() {
        const endTime = hrTime(Date.now());
        // One by one: while the database is away, only the metrics that are read from it are missing.
        const read = [...registries]
          .flatMap((registry) => registry.getMetricsAsArray())
          .map((metric) => (metric as unknown as { get(): Promise<Metric> }).get());
        const results = await Promise.allSettled(read);
        const metrics = results.flatMap((result) =>
          result.status === 'fulfilled' ? (metricDataOf(result.value, { startTime, endTime }) ?? []) : [],
        );
        const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
        return { resourceMetrics: { resource, scopeMetrics: [{ scope: { name: scope }, metrics }] }, errors };
      },
    },
  };
}

interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

/** Undefined for a summary, which OpenTelemetry does not have, and for a metric without values. */
export function metricDataOf(metric: Metric, times: Times): MetricData | undefined {
  const base = {
    descriptor: { name: metric.name, description: metric.help, unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  const type = String(metric.type);
  if (metric.values.length === 0) return undefined;
  const points = () =>
    metric.values.map(({ labels, value }) => ({ ...times, attributes: attributesOf(labels), value }));
  if (type === 'counter') return { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints: points() };
  if (type === 'gauge') return { ...base, dataPointType: DataPointType.GAUGE, dataPoints: points() };
  if (type !== 'histogram') return undefined;
  return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints: histogramPoints(metric, times) };
}

/** Prometheus counts each bucket with all smaller ones; OpenTelemetry counts it alone, with one more for what is larger. */
function histogramPoints({ name, values }: Metric, times: Times) {
  const byLabels = new Map<
    string,
    { attributes: Attributes; bounds: [number, number][]; sum: number; count: number }
  >();
  for (const { labels, value, metricName } of values) {
    const { le, ...others } = labels as Record<string, string | number>;
    const key = JSON.stringify(Object.entries(others).toSorted(([a], [b]) => (a < b ? -1 : 1)));
    const point = byLabels.get(key) ?? { attributes: attributesOf(others), bounds: [], sum: 0, count: 0 };
    byLabels.set(key, point);
    if (metricName === `${name}_sum`) point.sum = value;
    else if (metricName === `${name}_count`) point.count = value;
    else if (le !== undefined && le !== '+Inf') point.bounds.push([Number(le), value]);
  }
  return [...byLabels.values()].map(({ attributes, bounds, sum, count }) => {
    const ordered = bounds.toSorted(([a], [b]) => a - b);
    const cumulative = [...ordered.map(([, counted]) => counted), count];
    const counts = cumulative.map((counted, index) => counted - (cumulative[index - 1] ?? 0));
    return {
      ...times,
      attributes,
      value: { buckets: { boundaries: ordered.map(([bound]) => bound), counts }, sum, count },
    };
  });
}

function attributesOf(labels: Partial<Record<string, string | number>>): Attributes {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]));
}

function hrTime(ms: number): HrTime {
  return [Math.floor(ms / 1000), (ms % 1000) * 1_000_000];
}
