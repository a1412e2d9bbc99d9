/**
 * The whole way: from the desk's command that closes an event to the award's file in the folder, over outbox, signed
 * HTTPS webhook, feed pull and connector. Nothing does less and the same, so it is given in milliseconds, not as a ratio.
 */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Installation } from '#cli/installation.ts';
import { startLocalPrograms } from '#cli/local-programs.ts';
import { clientOf } from '#cli/local-setup.ts';
import type { SourceClient } from '#client/source-client.ts';
import { job } from '#contract/job.ts';
import { megabytes, printTable, quantile } from './figures.ts';
import { noteGoal } from './goals.ts';

const events = 100;
/** A program that has just started is not compiled yet: its first fifty events take a sixth longer than later ones. */
const warmUp = 50;
const lots = Array.from({ length: 10 }, (_, index) => `Lot ${index + 1}`);
const supplier = 'SUP-1';

/** Runs it; prints the times of the command itself and of the file. */
export async function benchWholeWay(installation: Installation): Promise<void> {
  const programs = await startLocalPrograms(installation, { freePorts: true });
  const rssBefore = process.memoryUsage.rss();
  try {
    const client = clientOf(installation, programs.service.url, programs.setup.deskKey);
    const supplierId = await createSupplier(client);
    const folder = join(installation.dataDir, 'erp-inbox');
    const answered: number[] = [];
    const arrived: number[] = [];
    for (let number = -warmUp; number < events; number += 1) {
      const event = await awardEvent(client, number);
      const began = performance.now();
      await client.call({ method: 'POST', path: `/desk/events/${event}/close`, body: {} }, z.unknown());
      const answeredMs = performance.now() - began;
      await isThere(join(folder, `award_${event}_${supplierId}.json`));
      if (number < 0) continue;
      answered.push(answeredMs);
      arrived.push(performance.now() - began);
    }
    console.log(`The whole way, event closed to file in the folder, ${events} events one after another (no baseline)`);
    const row = (name: string, times: readonly number[]) => [
      name,
      ...[0.5, 0.99].map((share) => `${quantile(times, share).toFixed(1)} ms`),
    ];
    noteGoal({ name: 'desk command to file, p50', measured: quantile(arrived, 0.5), most: 40, unit: ' ms' });
    noteGoal({ name: 'desk command to file, p99', measured: quantile(arrived, 0.99), most: 100, unit: ' ms' });
    printTable([['', 'p50', 'p99'], row('the command is answered', answered), row('the file is there', arrived)]);
    console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
  } finally {
    await programs.close();
  }
}

async function isThere(file: string): Promise<void> {
  for (const giveUpMs = performance.now() + 30_000; performance.now() < giveUpMs; await sleep(1)) {
    const found = await access(file).then(
      () => true,
      () => false,
    );
    if (found) return;
  }
  throw new Error(`${file} did not arrive.`);
}

async function createSupplier(client: SourceClient): Promise<string> {
  await client.call(
    {
      method: 'POST',
      path: '/api/manage/supplier_changes',
      body: { change_data: { suppliers: [{ external_id: supplier, name: 'Supplier' }] } },
    },
    z.unknown(),
  );
  // Its id shows in an event that it is invited to; an event with an unknown supplier is refused until it is there.
  for (;;) {
    const event = await createEvent(client, 'To learn the id').catch(() => undefined);
    if (event === undefined) continue;
    const read = await client.call(
      { method: 'GET', path: `/desk/events/${event}` },
      z.looseObject({ suppliers: z.array(z.looseObject({ id: z.string() })) }),
    );
    if (read.suppliers[0]) return read.suppliers[0].id;
  }
}

/** An event that only has to be closed. */
async function awardEvent(client: SourceClient, number: number): Promise<string> {
  const event = await createEvent(client, `Event ${number}`);
  const desk = (method: string, path: string, body: object) =>
    client.call({ method, path: `/desk/events/${event}/${path}`, body }, z.unknown());
  await desk('POST', 'publish', {});
  await desk('POST', 'bids', { supplier, lots: lots.map((lot) => ({ lot, values: { Price: '2.50' } })) });
  await desk('PUT', 'scenarios/best', { awards: lots.map((lot) => ({ lot, supplier, share_awarded: '1' })) });
  await desk('POST', 'award', { scenario: 'best' });
  return event;
}

async function createEvent(client: SourceClient, name: string): Promise<string> {
  const column = (columnName: string, inputBy: string, inputType: string) => ({
    name: columnName,
    column_type: 'INPUT',
    input_by: inputBy,
    input_type: inputType,
    precision: 2,
  });
  const submitted = await client.call(
    {
      method: 'POST',
      path: '/api/jobs/create-sourcing-events',
      body: {
        name,
        suppliers: [{ external_id: supplier }],
        primary_cost_calculation: '[Volume] * [Price]',
        bid_sheet: {
          column_roles: { volume: 'Volume' },
          columns: [column('Volume', 'BUYER_INPUT', 'NUMBER'), column('Price', 'SUPPLIER_INPUT', 'CURRENCY')],
          lots: lots.map((lot) => ({ name: lot, values: [{ column: 'Volume', value: '10' }] })),
        },
      },
    },
    job,
  );
  for (;;) {
    const read = await client.call({ method: 'GET', path: `/api/jobs/${submitted.id}` }, job);
    if (read.created_entity !== undefined) return read.created_entity;
    if (read.status === 'FAILED') throw new Error(`The job failed: ${JSON.stringify(read.errors)}`);
    await sleep(2);
  }
}
