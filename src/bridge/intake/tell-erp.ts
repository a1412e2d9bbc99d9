/** Tells an ERP what became of its requisitions, by a connector that may come from anyone. */
import { createConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import type { SecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { Connector, Outcome, Session } from '#connector/connector.ts';

export interface ErpTeller {
  /** Returns one outcome for each, within `timeoutMs`. Never rejects: when anything goes wrong, they are `unknown`. */
  acknowledge(acknowledgements: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]>;
  /** Whether a call that was given up has not ended yet. */
  isStuck(): boolean;
  readonly batchMax: number;
  readonly timeoutMs: number;
  /** How long after its end a call may still take effect. */
  readonly lateEffectMs: number;
}

/** Returns undefined for a connector that acknowledges nothing. */
export function createErpTeller(
  session: Session,
  { capabilities }: Pick<Connector, 'capabilities'>,
  secrets: SecretRedactor,
): ErpTeller | undefined {
  if (capabilities.acknowledges !== true) return undefined;
  const calls = createConnectorCalls(session, { secrets });
  const { batchMax, timeoutMs, lateEffectMs } = capabilities;
  return {
    acknowledge: (acknowledgements, signal) => calls.acknowledge(acknowledgements, { timeoutMs, signal }),
    isStuck: () => calls.isStuck(),
    batchMax,
    timeoutMs,
    lateEffectMs,
  };
}
