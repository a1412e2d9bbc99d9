/** The secrets of the service that are sealed under the master key. */
import type { SealedColumn } from '#platform/sealed-columns.ts';
import { authenticationContext, signingKeyContext, standardKeyContext } from './webhook-row.ts';

export const serviceSealedColumns: readonly SealedColumn[] = [
  { table: 'service.webhooks', column: 'signing_key', context: signingKeyContext },
  { table: 'service.webhooks', column: 'authentication', context: authenticationContext },
  { table: 'service.webhooks', column: 'standard_key', context: standardKeyContext },
];
