// Reads suppliers and awards: BASE_URL=… API_KEY=… node client.mjs
import { AppError, createClient } from 'sourcing-bridge/client';

const client = createClient({ baseUrl: process.env.BASE_URL, apiKey: process.env.API_KEY });
try {
  for await (const supplier of client.suppliers()) console.log(`supplier ${String(supplier.external_id)}`);

  let newest = '2026-01-01T00:00:00Z';
  for await (const award of client.feed('awards', { modifiedAfter: newest })) {
    console.log(`award ${String(award.id)} of event ${String(award.sourcing_event)}`);
    newest = award.modified;
  }
  console.log(`next time from ${newest}`);
} catch (error) {
  if (!(error instanceof AppError)) throw error;
  console.error(`${error.publicMessage} Trying again helps: ${error.recovery.do === 'retry'}`);
  process.exitCode = 1;
} finally {
  await client.close();
}
