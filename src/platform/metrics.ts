/**
 * The process's Prometheus metrics. Each part declares its metrics beside the code that counts; all share one registry.
 */
import { collectDefaultMetrics, Registry } from 'prom-client';
import { telemetryBackend } from './telemetry.ts';

export { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** A registry with Node's own metrics (memory, event loop lag, open handles). */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  telemetryBackend()?.addRegistry?.(registry);
  return registry;
}
