/**
 * Turns telemetry on when the standard variables of OpenTelemetry ask for it. Otherwise nothing of it is loaded.
 * Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
import { loadOptional } from '#platform/optional-package.ts';
import { AppError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { useTelemetryBackend } from '../telemetry.ts';

type Environment = Readonly<Record<string, string | undefined>>;

const signalNames = ['TRACES', 'METRICS', 'LOGS'] as const;
export type SignalName = (typeof signalNames)[number];

export interface TelemetryOptions {
  readonly signals: ReadonlySet<SignalName>;
  readonly serviceName: string;
  readonly env: Environment;
}

/**
 * Which signals are sent; empty when telemetry is off. Unlike the specification, no exporter is the default: a signal is
 * sent when its endpoint, the shared endpoint or `OTEL_<SIGNAL>_EXPORTER=otlp` is set. Throws an AppError `invalid` for
 * an exporter or a protocol that this program does not have.
 */
export function signalsOf(env: Environment): Set<SignalName> {
  const valueOf = (name: string) => env[name]?.trim() || undefined;
  if (valueOf('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return new Set();
  const wanted = signalNames.filter((signal) => {
    const name = `OTEL_${signal}_EXPORTER`;
    const exporter = valueOf(name);
    if (exporter === 'none') return false;
    if (exporter !== undefined && exporter !== 'otlp') throw refused(name, exporter, 'otlp or none');
    const endpoints = [`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, 'OTEL_EXPORTER_OTLP_ENDPOINT'];
    return exporter === 'otlp' || endpoints.some((endpoint) => valueOf(endpoint) !== undefined);
  });
  for (const signal of wanted)
    for (const name of [`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`, 'OTEL_EXPORTER_OTLP_PROTOCOL']) {
      const protocol = valueOf(name);
      if (protocol !== undefined && protocol !== 'http/protobuf') throw refused(name, protocol, 'http/protobuf');
    }
  return new Set(wanted);
}

/**
 * Starts to send what the variables ask for. `close` sends what is left, within a few seconds. Throws as `signalsOf`
 * does.
 */
export async function startTelemetry(
  env: Environment,
  { serviceName }: { serviceName: string },
): Promise<{ logTo: (log: Logger) => void; close: () => Promise<void> } | undefined> {
  const signals = signalsOf(env);
  if (signals.size === 0) return undefined;
  const { createOtlpBackend } = await loadOptional(
    'telemetry',
    'Telemetry over OTLP (OTEL_*)',
    () => import('./otlp-backend.ts'),
  );
  const { backend, logTo, close } = createOtlpBackend({ signals, serviceName, env });
  useTelemetryBackend(backend);
  return {
    logTo,
    close: async () => {
      useTelemetryBackend(undefined);
      await close();
    },
  };
}

function refused(name: string, value: string, possible: string): AppError {
  return new AppError('invalid', `${name} is "${value}", which this program does not have: it must be ${possible}.`);
}
