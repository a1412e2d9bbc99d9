/** Loads, checks and opens the connectors of the configured flows. */
import { resolve } from 'node:path';
import type { BridgeDeps } from '#bridge/settings/bridge-deps.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Connector, ConnectorLog, Outcome, Session } from '#connector/connector.ts';
import { ConfigError } from '#connector/errors.ts';
import { outcomeOf } from '#connector/outcomes.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { pathText, rawIssuesOf, safeParseSettings } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import { within } from '#platform/within.ts';
import { checkedCapabilities, loadConnector } from './load-connector.ts';
import { createSecretRedactor, type SecretRedactor } from './secret-redactor.ts';

/** A flow with its opened connector. */
export interface OpenFlow {
  readonly flow: FlowSettings;
  /** Its capabilities are those that it has with the flow's settings. */
  readonly connector: Connector;
  readonly session: Session;
  readonly secrets: SecretRedactor;
}

/** How long the start waits for a connector to open. After that the connector goes on opening in the background. */
const openMs = 15_000;
const closeMs = 5_000;

/**
 * Loads and opens the connectors of all flows concurrently; `opened` closes them. Throws AppError `invalid` for
 * settings that cannot work. A connector that fails for another reason, or takes too long, does not affect other flows:
 * its next call opens it again, and its documents wait until it is open.
 */
export async function openFlows(
  { settings, dataDir, log, clock }: Pick<BridgeDeps, 'settings' | 'dataDir' | 'log' | 'clock'>,
  opened: AsyncDisposableStack,
  timeouts: { openMs: number; closeMs: number } = { openMs, closeMs },
): Promise<OpenFlow[]> {
  const results = await Promise.allSettled(
    settings.flows.map(async (flow, index) => {
      const place = { what: 'flow', name: flow.name, path: ['bridge', 'flows', index] } as const;
      const opening = { ...place, connector: flow.connector, settings: flow.settings };
      const context = { dataDir: resolve(dataDir), log, clock };
      const open = await openConnector(opening, context, opened, (loaded) => checkKinds(flow, loaded), timeouts);
      return { flow, ...open };
    }),
  );
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/** What opens a connector: a flow or an intake. `path` is where it stands in the configuration. */
interface ConnectorUse {
  readonly what: 'flow' | 'intake';
  readonly name: string;
  readonly path: readonly (string | number)[];
  readonly connector: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

/**
 * Loads and opens one connector, as `openFlows` does; `checkLoaded` throws for a connector that does not fit its use.
 */
export async function openConnector(
  use: ConnectorUse,
  { dataDir, log, clock }: { dataDir: string; log: Logger; clock: BridgeDeps['clock'] },
  opened: AsyncDisposableStack,
  checkLoaded: (loaded: Connector) => void,
  timeouts: { openMs: number; closeMs: number } = { openMs, closeMs },
): Promise<Omit<OpenFlow, 'flow'>> {
  const loaded = await loadConnector(use.connector);
  checkLoaded(loaded);
  const secrets = createSecretRedactor(use.settings);
  const { redact } = secrets;
  try {
    const parsed = readSettings(loaded, use);
    secrets.addSecretsOf(parsed);
    const connector = withCapabilities(loaded, parsed);
    const context = { dataDir, log: connectorLog(log, use, secrets), clock };
    const session = createLazySession(async () => loaded.open(parsed, context), { ...timeouts, redact });
    opened.defer(() => session.close());
    await session.opening();
    return { connector, session, secrets };
  } catch (error) {
    throw redactedError(error, redact);
  }
}

/** Throws AppError `invalid` when the flow has documents that the connector does not take: they would wait for ever. */
function checkKinds(flow: FlowSettings, { capabilities }: Connector): void {
  const missing = flow.documents.filter((kind) => !capabilities.kinds.includes(kind));
  if (missing.length > 0)
    throw new AppError('invalid', `Flow "${flow.name}": "${flow.connector}" takes no ${missing.join(', ')} documents.`);
}

/**
 * Returns the parsed settings. Throws AppError `invalid` that names the path of each wrong setting in the
 * configuration, but never a value, which may be a secret.
 */
function readSettings(loaded: Connector, { what, name, path: at, connector, settings }: ConnectorUse): unknown {
  const parsed = safeParseSettings(loaded.settings, settings);
  if (parsed.success) return parsed.data;
  const issues = rawIssuesOf(parsed.error.issues).map(({ path, message }) => ({
    path: pathText([...at, 'settings', ...path]),
    message: message === 'is not a known field' ? 'is not a known setting' : message,
  }));
  const lines = issues.map(({ path, message }) => `  ${path} ${message}`);
  const text = `The settings of ${what} "${name}" are not valid for its connector "${connector}":\n${lines.join('\n')}`;
  throw new AppError('invalid', text, { issues });
}

/** Returns the connector with the capabilities that it has with these settings. */
function withCapabilities(connector: Connector, settings: unknown): Connector {
  const capabilities = { ...connector.capabilities, ...connector.capabilitiesWith?.(settings) };
  return { ...connector, capabilities: checkedCapabilities(connector.name, capabilities) };
}

/** Returns the log of a connector: no line of it holds a secret of the connector's settings. */
function connectorLog(
  log: Logger,
  { what, name, connector }: ConnectorUse,
  { redact, removeSecrets }: SecretRedactor,
): ConnectorLog {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error'): ConnectorLog['info'] =>
    (message, fields = {}) => {
      if (log.isLevelEnabled(level))
        log[level]({ ...redactedFields(fields, removeSecrets), [what]: name, connector }, redact(message));
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

function redactedFields(fields: Readonly<Record<string, unknown>>, removeSecrets: (text: string) => string): object {
  const errorAsText = (_name: string, value: unknown) => (value instanceof Error ? errorText(value) : value);
  try {
    return JSON.parse(removeSecrets(JSON.stringify(fields, errorAsText))) as object;
  } catch {
    return { fields: 'could not be written as JSON' };
  }
}

/** Leaves out the cause: the connector, or its schema, may have repeated a secret in any part of it. */
function redactedError(error: unknown, redact: (text: string) => string): AppError {
  if (!(error instanceof AppError)) return new AppError('invalid', redact(errorText(error)));
  const issues = error.issues.map(({ path, message }) => ({ path, message: redact(message) }));
  return new AppError(error.code, redact(error.publicMessage), { message: redact(error.message), issues });
}

function isWrongSetting(error: unknown): boolean {
  return error instanceof ConfigError || (error instanceof AppError && error.code === 'invalid');
}

/**
 * Creates a session that opens the connector at its first call, and again with the next call when that has failed. What
 * its checks say holds no secret.
 */
function createLazySession(
  open: () => Promise<Session>,
  { redact, ...timeouts }: { openMs: number; closeMs: number; redact: (text: string) => string },
) {
  let inner: Session | undefined;
  let opening: Promise<Session> | undefined;

  function session(): Promise<Session> {
    opening ??= open().then(
      (opened) => {
        inner = opened;
        return opened;
      },
      (error: unknown) => {
        opening = undefined;
        throw error;
      },
    );
    return opening;
  }

  async function ready(): Promise<Session> {
    return inner ?? within(timeouts.openMs, session());
  }

  function openedOrOutcome(): Promise<Session | Outcome> {
    return ready().catch(notOpenedOutcome);
  }

  const lazy: Session & { opening(): Promise<void> } = {
    /** Resolves when the session is open, could not be opened yet, or takes too long. Rejects for wrong settings. */
    opening: () =>
      within(timeouts.openMs, session()).then(
        () => undefined,
        (error: unknown) => {
          if (isWrongSetting(error)) throw error;
        },
      ),
    check: async () => {
      try {
        const opened = await within(timeouts.openMs, session());
        const results = await within(timeouts.openMs, opened.check());
        return results.map(({ name, ok, message }) => ({ name: redact(name), ok, message: redact(message) }));
      } catch (error) {
        return [{ name: 'connector', ok: false, message: `It cannot be checked: ${redact(errorText(error))}` }];
      }
    },
    get plan() {
      const plan = inner?.plan?.bind(inner);
      return plan as NonNullable<Session['plan']>;
    },
    get firstTests() {
      return inner?.firstTests?.bind(inner) as NonNullable<Session['firstTests']>;
    },
    write: async (operations, signal) => {
      const opened = await openedOrOutcome();
      return 'status' in opened ? operations.map(() => opened) : opened.write(operations, signal);
    },
    acknowledge: async (acknowledgements, signal) => {
      const opened = await openedOrOutcome();
      if ('status' in opened) return acknowledgements.map(() => opened);
      if (!opened.acknowledge) throw new ConfigError('The connector declares that it acknowledges, and cannot.');
      return opened.acknowledge(acknowledgements, signal);
    },
    readBack: async (deliveries, signal) => {
      const opened = await ready();
      if (!opened.readBack) throw new ConfigError('The connector declares that it reads back, and cannot.');
      return opened.readBack(deliveries, signal);
    },
    lookup: async (documents, signal) => (await ready()).lookup(documents, signal),
    async *read(stream, checkpoint, signal) {
      const opened = await ready();
      if (!opened.read) throw new ConfigError('The connector declares that it reads, and cannot.');
      yield* opened.read(stream, checkpoint, signal);
    },
    async *openRequisitions(signal) {
      const opened = await ready();
      if (!opened.openRequisitions)
        throw new ConfigError('The connector declares that it lists open requisitions, and cannot.');
      yield* opened.openRequisitions(signal);
    },
    close: async () => {
      const closed = opening?.then((opened) => opened.close()).catch(() => undefined);
      await within(timeouts.closeMs, closed ?? Promise.resolve()).catch(() => undefined);
    },
  };
  return lazy;
}

/** The outcome of a write when the connector could not be opened: never `unknown`, as nothing was sent to the ERP. */
function notOpenedOutcome(error: unknown): Outcome {
  const message = `the connector cannot be opened: ${errorText(error)}`;
  const outcome = outcomeOf(error);
  if ('error' in outcome) return { status: 'retry', error: { ...outcome.error, message } };
  return { status: 'retry', error: { type: isWrongSetting(error) ? 'config' : 'transient', message } };
}
