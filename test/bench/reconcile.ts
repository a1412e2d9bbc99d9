/**
 * `bridge reconcile` of awards of five lines in a PostgreSQL ERP, against the ERP's bare reads: the same rows by three
 * selects a page, thrown away. In turns. And the memory of one comparison of a long flow: what the process holds in its
 * first tenth, and at most, and what of that is the heap and what buffers.
 * BENCH_DOCUMENTS: how many instead of 8,000; BENCH_FLOW: how many documents the long flow has instead of 100,000.
 */
import { Client } from 'pg';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { reconcileFlow } from '#bridge/operate/reconcile/reconcile-flow.ts';
import { beginReconciliation } from '#bridge/operate/reconcile/reconciliation-store.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import type { Installation } from '#cli/installation.ts';
import type { Operation } from '#connector/connector.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import connector from '../../connectors/postgres/index.ts';
import { median, megabytes, printTable } from './figures.ts';
import { awardOperation } from './postgres-connector.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 8_000);
const flowCount = Number(process.env['BENCH_FLOW'] ?? 100_000);
const page = 500;
const rounds = 5;
const never = new AbortController().signal;

/** Prints documents per second on both sides, their ratio, and the memory of a long comparison. */
export async function benchReconcile(installation: Installation): Promise<void> {
  const { database, url } = installation.open;
  await migrateBridge(database);
  const { context } = testContext();
  const session = await connector.open(connector.settings.parse({ url }), context);
  const client = new Client({ connectionString: url });
  await client.connect();
  const flow = bridgeSettings.parse({
    sources: [{ name: 'bench', base_url: 'http://127.0.0.1:9', api_key: 'k' }],
    flows: [{ name: 'bench', source: 'bench', connector: 'postgres' }],
  }).flows[0];
  if (!flow) throw new Error('no flow');
  await database.query(`insert into bridge.flows (name, source, kinds) values ('bench', 'bench', '{award}')`);
  const openFlow = { flow, connector, session, secrets: createSecretRedactor({}) };
  const compare = async (onPage?: () => void) => {
    const asked = { flow: 'bench', events: null, askedBy: 'bench', goesOn: false };
    const begun = await beginReconciliation(database, asked, timestampNow(systemClock));
    const deps = { database, openFlow, clock: systemClock, ...(onPage && { onPage }) };
    const run = await reconcileFlow(deps, begun, never);
    if (run.asDelivered !== run.documents) throw new Error(`${run.documents - run.asDelivered} differ`);
    return run.documents;
  };

  async function deliver(from: number, to: number): Promise<void> {
    for (let at = from; at < to; at += page) {
      const operations = Array.from({ length: Math.min(page, to - at) }, (_, index) => awardOperation(at + index, 1));
      await session.write(operations, never);
      await noteDelivered(operations);
    }
  }

  async function noteDelivered(operations: readonly Operation[]): Promise<void> {
    const columns = [
      operations.map(({ document }) => document.key),
      operations.map(({ contentHash }) => contentHash),
      operations.map(({ document }) => JSON.stringify(document)),
    ];
    await database.query(
      `with given as (select * from unnest($1::text[], $2::text[], $3::text[]) as g (key, hash, body)),
         ledger as (insert into bridge.flow_documents (flow, kind, key, reconciled, delivered_hash, reference, delivered)
           select 'bench', 'award', key, 1, hash, key, now() from given)
       insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
         select 'bench', 'award', key, hash, body, '[]', now() from given`,
      columns,
    );
  }

  try {
    await deliver(0, documentCount);
    // As autovacuum does it sooner or later: the figures must not depend on whether it has come by.
    await database.query('analyze');
    const turns: { compared: number; bare: number }[] = [];
    for (let round = -1; round < rounds; round += 1) {
      let began = performance.now();
      await compare();
      const compared = performance.now() - began;
      began = performance.now();
      for (let at = 0; at < documentCount; at += page)
        await readBare(
          client,
          Array.from(
            { length: Math.min(page, documentCount - at) },
            (_, index) => awardOperation(at + index, 1).document.key,
          ),
        );
      if (round >= 0) turns.push({ compared, bare: performance.now() - began });
    }
    const ratio = median(turns.map(({ compared, bare }) => bare / compared));
    const perSecond = (ms: number) => `${Math.round((documentCount / ms) * 1000).toLocaleString('en')}/s`;
    console.log(`Comparing ${documentCount.toLocaleString('en')} awards with a PostgreSQL ERP, ${page} a page`);
    printTable([
      ['bridge reconcile', 'bare reads', 'reconcile : bare'],
      [
        perSecond(median(turns.map(({ compared }) => compared))),
        perSecond(median(turns.map(({ bare }) => bare))),
        ratio.toFixed(2),
      ],
    ]);

    await deliver(documentCount, flowCount);
    const samples: NodeJS.MemoryUsage[] = [];
    const rssBefore = process.memoryUsage.rss();
    const began = performance.now();
    const documents = await compare(() => samples.push(process.memoryUsage()));
    const seconds = (performance.now() - began) / 1000;
    const tenth = samples.slice(0, Math.max(1, Math.floor(samples.length / 10)));
    const most = (of: keyof NodeJS.MemoryUsage, among = samples) => megabytes(Math.max(...among.map((one) => one[of])));
    console.log(
      `  ${documents.toLocaleString('en')} documents in ${seconds.toFixed(0)} s: memory ${megabytes(rssBefore)} before, at most ` +
        `${most('rss', tenth)} in the first tenth, ${most('rss')} in all; of that at most ${most('heapUsed')} of heap in use ` +
        `(${most('heapTotal')} reserved), ${most('external')} of buffers\n`,
    );
  } finally {
    await session.close();
    await client.end();
  }
}

async function readBare(client: Client, keys: readonly string[]): Promise<void> {
  for (const table of ['award', 'award_line', 'award_value'])
    await client.query(`select * from sourcing.${table} where key = any($1)`, [keys]);
}
