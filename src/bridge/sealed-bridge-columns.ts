/** The secrets of the bridge that are sealed under the master key. */
import type { SealedColumn } from '#platform/sealed-columns.ts';
import { webhookSecretColumn } from './receive/webhook-store.ts';

export const bridgeSealedColumns: readonly SealedColumn[] = [webhookSecretColumn];
