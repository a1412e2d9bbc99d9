import { resolve } from 'node:path';
import type { Connector, Outcome, Session } from '#connector/connector.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';
import type { BridgeDeps } from '../bridge-deps.ts';
import type { FlowSettings } from '../settings.ts';
import { keepSecrets } from './keep-secrets.ts';
import { loadConnector } from './load-connector.ts';

/** A flow with its connector, opened. */
export interface OpenFlow {
  readonly flow: FlowSettings;
  readonly connector: Connector;
  readonly session: Session;
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
  { settings, dataDir }: Pick<BridgeDeps, 'settings' | 'dataDir'>,
  opened: AsyncDisposableStack,
  patience: { openMs: number; closeMs: number } = { openMs, closeMs },
): Promise<OpenFlow[]> {
  const context = { dataDir: resolve(dataDir) };
  const results = await Promise.allSettled(
    settings.flows.map(async (flow) => {
      const connector = await loadConnector(flow.connector);
      checkKinds(flow, connector);
      const tell = keepSecrets(flow.settings);
      try {
        const parsed = parseInput(connector.settings, flow.settings, `The settings of flow "${flow.name}"`);
        const session = sessionOf(async () => connector.open(parsed, context), { ...patience, tell });
        opened.defer(() => session.close());
        await session.opening();
        return { flow, connector, session };
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

/** Without its cause: the connector, or its schema, may have repeated a secret in any part of it. */
function tellable(error: unknown, tell: (text: string) => string): AppError {
  if (!(error instanceof AppError)) return new AppError('invalid', tell(errorText(error)));
  const issues = error.issues.map(({ path, message }) => ({ path, message: tell(message) }));
  return new AppError(error.code, tell(error.publicMessage), { message: tell(error.message), issues });
}

function isWrongSetting(error: unknown): boolean {
  return error instanceof AppError && error.code === 'invalid';
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
        const type = isWrongSetting(error) ? 'config' : 'transient';
        const message = `the connector cannot be opened: ${errorText(error)}`;
        return operations.map((): Outcome => ({ status: 'retry', error: { type, message } }));
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
