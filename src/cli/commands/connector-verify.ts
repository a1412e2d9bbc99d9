/**
 * `connector verify`: an acceptance of a connector on a customer's own test system, with the settings of a flow. It
 * needs no database and no source. Without `--test-system` nothing is written. Exit code 1 when a line fails.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { openFlows } from '#bridge/connectors/open-flows.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { type DocumentKind, documentKinds } from '#connector/documents.ts';
import { runAcceptance } from '#connector/testing/acceptance.ts';
import { type AcceptanceSample, acceptanceSample } from '#connector/testing/acceptance-documents.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { createLogger } from '#platform/log.ts';
import { readConfiguration } from '../configuration.ts';
import { type OutputOptions, print, tableOf } from '../output.ts';
import { listenForStop } from '../stop-request.ts';

interface VerifyOptions extends OutputOptions {
  config?: string;
  data?: string;
  flow?: string;
  kinds?: string;
  sample?: string;
  testSystem?: boolean;
}

export async function runConnectorVerify(options: VerifyOptions, name: string): Promise<number> {
  const { bridge, data_dir, umask } = readConfiguration(options.config, options, process.env);
  process.umask(Number.parseInt(umask, 8));
  const flow = flowOf(bridge.flows, name, options.flow);
  const kinds = kindsOf(flow, options.kinds);
  const sample = sampleOf(options.sample);
  using stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const log = createLogger({ name: 'connector-verify', level: 'error' });
  const deps = { settings: { ...bridge, flows: [flow] }, dataDir: data_dir, log, clock: systemClock };
  const openFlow = async () => {
    const [only] = await openFlows(deps, opened);
    if (!only) throw new Error('No flow was opened.');
    return only;
  };
  const { connector, secrets } = await openFlow();
  const found = await runAcceptance({
    kinds,
    capabilities: connector.capabilities,
    open: async () => (await openFlow()).session,
    sample,
    mayWrite: options.testSystem === true,
    clock: systemClock,
    signal: stop.signal,
  });
  const lines = found.map((line) => ({ ...line, message: secrets.redact(line.message) }));
  const isGood = lines.every(({ ok }) => ok);
  print(options, { ok: isGood, connector: name, flow: flow.name, wrote: options.testSystem === true, lines }, () =>
    [
      tableOf(
        ['', 'of', 'step', 'result'],
        lines.map(({ ok, of, name, message }) => [ok ? 'ok' : 'FAIL', of, name, message]),
      ),
      ...(options.testSystem === true
        ? []
        : [
            'Nothing was written. On a test system, --test-system creates, changes and removes one document of each kind.',
          ]),
    ].join('\n\n'),
  );
  return isGood ? 0 : 1;
}

/** The flow of that name, else the only one with the connector. */
function flowOf(flows: readonly FlowSettings[], connector: string, name: string | undefined): FlowSettings {
  const found = flows.filter((flow) => flow.connector === connector && (name === undefined || flow.name === name));
  const [flow] = found;
  if (found.length === 1 && flow) return flow;
  const names = flows.map((entry) => `${entry.name} (${entry.connector})`).join(', ') || 'none';
  throw new AppError(
    'invalid',
    found.length === 0
      ? `The configuration has no flow${name === undefined ? '' : ` "${name}"`} with the connector "${connector}". Its flows: ${names}.`
      : `Several flows have the connector "${connector}": choose one with --flow. The flows: ${names}.`,
  );
}

/** Suppliers only if they are named: what was made of them can be archived, and not removed. */
function kindsOf({ documents }: FlowSettings, given: string | undefined): DocumentKind[] {
  if (given === undefined) return documents.filter((kind) => kind !== 'supplier');
  const names = given.split(',').map((kind) => kind.trim());
  const unknown = names.filter((kind) => !documents.some((known) => known === kind));
  if (unknown.length > 0)
    throw new AppError(
      'invalid',
      `The flow delivers no ${unknown.join(', ')} documents, only ${documents.join(', ')}.`,
    );
  return documentKinds.filter((kind) => names.includes(kind));
}

function sampleOf(file: string | undefined): AcceptanceSample {
  let given: unknown = {};
  try {
    if (file !== undefined) given = parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new AppError('invalid', `The sample ${file} cannot be read: ${errorText(error)}`);
  }
  const parsed = acceptanceSample.safeParse(given ?? {});
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `  ${path.join('.')} ${message}`);
  throw new AppError('invalid', `The sample ${file} is not valid:\n${problems.join('\n')}`);
}
