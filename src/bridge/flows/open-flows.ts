import { resolve } from 'node:path';
import type { Connector, ConnectorLog, Outcome, Session } from '#connector/connector.ts';
import { ConfigError } from '#connector/errors.ts';
import { outcomeOf } from '#connector/outcomes.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { messageOf, pathText, rawIssuesOf } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import type { BridgeDeps } from '../bridge-deps.ts';
import type { FlowSettings } from '../settings.ts';
import { keepSecrets, type SecretKeeper } from './keep-secrets.ts';
import { checkedCapabilities, loadConnector } from './load-connector.ts';

/** A flow with its connector, opened. */
export interface OpenFlow {
  readonly flow: FlowSettings;
  /** With the capabilities that it has with the flow's settings. */
  readonly connector: Connector;
  readonly session: Session;
  readonly secrets: SecretKeeper;
}

/** How long a start waits for a connector to open; it goes on opening beside. */
const openMs = 15_000;
const closeMs = 5_000;

/**
 * Loads and opens the flows' connectors, all at once; they are closed with `opened`. Throws AppError `invalid` for
 * settings that cannot work. A connector that fails otherwise, or takes too long, spoils no other flow: it is opened
 * again with its next call, and until it is, its documents wait.
 */
export async function openFlows(
  { settings, dataDir, log, clock }: Pick<BridgeDeps, 'settings' | 'dataDir' | 'log' | 'clock'>,
  opened: AsyncDisposableStack,
  patience: { openMs: number; closeMs: number } = { openMs, closeMs },
): Promise<OpenFlow[]> {
  const results = await Promise.allSettled(
    settings.flows.map(async (flow, index) => {
      const loaded = await loadConnector(flow.connector);
      checkKinds(flow, loaded);
      const secrets = keepSecrets(flow.settings);
      const { tell } = secrets;
      try {
        const parsed = readSettings(loaded, flow, index);
        secrets.learn(parsed);
        const connector = withCapabilities(loaded, parsed);
        const context = { dataDir: resolve(dataDir), log: connectorLog(log, flow, secrets), clock };
        const session = sessionOf(async () => loaded.open(parsed, context), { ...patience, tell });
        opened.defer(() => session.close());
        await session.opening();
        return { flow, connector, session, secrets };
      } catch (error) {
        throw tellable(error, tell);
      }
    }),
  );
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/** A kind that the flow asks for and the connector does not take would wait for ever. */
function checkKinds(flow: FlowSettings, { capabilities }: Connector): void {
  const missing = flow.documents.filter((kind) => !capabilities.kinds.includes(kind));
  if (missing.length > 0)
    throw new AppError('invalid', `Flow "${flow.name}": "${flow.connector}" takes no ${missing.join(', ')} documents.`);
}

/** Names everything that is wrong, each where it stands in the configuration; never a value, which may be a secret. */
function readSettings(loaded: Connector, { name, connector, settings }: FlowSettings, index: number): unknown {
  const parsed = loaded.settings.safeParse(settings, { error: messageOf });
  if (parsed.success) return parsed.data;
  const issues = rawIssuesOf(parsed.error.issues).map(({ path, message }) => ({
    path: pathText(['bridge', 'flows', index, 'settings', ...path]),
    message: message === 'is not a known field' ? 'is not a known setting' : message,
  }));
  const lines = issues.map(({ path, message }) => `  ${path} ${message}`);
  const text = `The settings of flow "${name}" are not valid for its connector "${connector}":\n${lines.join('\n')}`;
  throw new AppError('invalid', text, { issues });
}

/** What the connector can do with these settings. */
function withCapabilities(connector: Connector, settings: unknown): Connector {
  const capabilities = { ...connector.capabilities, ...connector.capabilitiesWith?.(settings) };
  return { ...connector, capabilities: checkedCapabilities(connector.name, capabilities) };
}

/** Whatever a connector logs, it holds no secret of its settings. */
function connectorLog(
  log: Logger,
  { name: flow, connector }: FlowSettings,
  { tell, hide }: SecretKeeper,
): ConnectorLog {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error'): ConnectorLog['info'] =>
    (message, fields = {}) => {
      if (log.isLevelEnabled(level)) log[level]({ ...plain(fields, hide), flow, connector }, tell(message));
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

function plain(fields: Readonly<Record<string, unknown>>, hide: (text: string) => string): object {
  const text = (_name: string, value: unknown) => (value instanceof Error ? errorText(value) : value);
  try {
    return JSON.parse(hide(JSON.stringify(fields, text))) as object;
  } catch {
    return { fields: 'could not be written as JSON' };
  }
}

/** Without its cause: the connector, or its schema, may have repeated a secret in any part of it. */
function tellable(error: unknown, tell: (text: string) => string): AppError {
  if (!(error instanceof AppError)) return new AppError('invalid', tell(errorText(error)));
  const issues = error.issues.map(({ path, message }) => ({ path, message: tell(message) }));
  return new AppError(error.code, tell(error.publicMessage), { message: tell(error.message), issues });
}

function isWrongSetting(error: unknown): boolean {
  return error instanceof ConfigError || (error instanceof AppError && error.code === 'invalid');
}

/** A session that is opened by itself, and opened again when that failed. What it says holds no secret. */
function sessionOf(
  open: () => Promise<Session>,
  { tell, ...patience }: { openMs: number; closeMs: number; tell: (text: string) => string },
) {
  let inner: Session | undefined;
  let trying: Promise<Session> | undefined;

  function session(): Promise<Session> {
    trying ??= open().then(
      (one) => {
        inner = one;
        return one;
      },
      (error: unknown) => {
        trying = undefined;
        throw error;
      },
    );
    return trying;
  }

  const lazy: Session & { opening(): Promise<void> } = {
    /** Rejects when the settings cannot work. */
    opening: () =>
      within(patience.openMs, session()).then(
        () => undefined,
        (error: unknown) => {
          if (isWrongSetting(error)) throw error;
        },
      ),
    check: async () => {
      try {
        const opened = await within(patience.openMs, session());
        const results = await within(patience.openMs, opened.check());
        return results.map(({ name, ok, message }) => ({ name: tell(name), ok, message: tell(message) }));
      } catch (error) {
        return [{ name: 'connector', ok: false, message: `It cannot be checked: ${tell(errorText(error))}` }];
      }
    },
    get plan() {
      const plan = inner?.plan?.bind(inner);
      return plan as NonNullable<Session['plan']>;
    },
    write: async (operations, signal) => {
      let opened: Session;
      try {
        opened = inner ?? (await within(patience.openMs, session()));
      } catch (error) {
        const outcome = unopened(error);
        return operations.map(() => outcome);
      }
      return opened.write(operations, signal);
    },
    lookup: async (documents, signal) =>
      (inner ?? (await within(patience.openMs, session()))).lookup(documents, signal),
    close: async () => {
      const late = trying?.then((one) => one.close()).catch(() => undefined);
      await within(patience.closeMs, late ?? Promise.resolve()).catch(() => undefined);
    },
  };
  return lazy;
}

/** Nothing was sent, whatever it was. */
function unopened(error: unknown): Outcome {
  const message = `the connector cannot be opened: ${errorText(error)}`;
  const outcome = outcomeOf(error);
  if ('error' in outcome) return { status: 'retry', error: { ...outcome.error, message } };
  return { status: 'retry', error: { type: isWrongSetting(error) ? 'config' : 'transient', message } };
}

/** Rejects when `promise` has not settled after `ms`; its late answer is dropped. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
