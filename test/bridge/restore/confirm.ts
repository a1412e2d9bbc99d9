/** Asks the ERP about the documents of a flow after a restore, as the flow's worker does before it pushes. */
import { createSecretRedactor } from '#bridge/flows/secret-redactor.ts';
import { createConfirmation } from '#bridge/restore/confirm-documents.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { startProcess, type TestProcess } from '../parts.ts';
import type { FakeErp } from '../push/fake-erp.ts';
import { type Pusher, testProcess } from '../push/pusher.ts';

export async function confirm(pusher: Pusher, erp: FakeErp, process?: TestProcess, database?: Database): Promise<void> {
  const own = process ?? (await startProcess(pusher.db));
  const run = createConfirmation({
    openFlow: { flow: pusher.flow, connector: erp.connector, session: erp.session, secrets: createSecretRedactor({}) },
    database: database ?? own.database,
    acquireLease: own.acquireLease,
    processIdentity: testProcess,
    clock: pusher.clock,
    log: silentLogger,
    abortGraceMs: 20,
  });
  await run(new AbortController().signal);
}
