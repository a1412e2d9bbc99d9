/** The secrets of the bridge that are sealed under the master key. */
import type { SealedColumn } from '#platform/sealed-columns.ts';
import { webhookSecretColumn } from './receive/webhook-store.ts';

/** Of accounts of the console; the id is the name of the account. */
export const secondFactorColumn: SealedColumn = {
  table: 'bridge.second_factors',
  column: 'secret',
  context: (id) => `bridge.second_factors.secret ${id}`,
};

export const bridgeSealedColumns: readonly SealedColumn[] = [webhookSecretColumn, secondFactorColumn];
