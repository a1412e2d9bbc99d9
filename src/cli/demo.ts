/**
 * `demo`: plays a seeded story through service, webhooks, feeds and connector, waits until the bridge is idle, and
 * compares what the connector holds with what the service awarded. Exit code 0 when both are equal, else 1.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isIdle, readStatus } from '#bridge/status.ts';
import type { SourceClient } from '#client/source-client.ts';
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import { listEnvelope } from '#contract/list.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { readConfiguration } from './configuration.ts';
import { type Installation, openInstallation } from './installation.ts';
import { type LocalPrograms, startLocalPrograms } from './local-programs.ts';
import { clientOf } from './local-setup.ts';

export interface DemoOptions {
  config?: string;
  data?: string;
  events: number;
  suppliers: number;
  lots: number;
  seed: number;
}

const idleWithinMs = 120_000;

export async function runDemo(options: DemoOptions): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  // The demo has a folder of its own and its own flow: it compares that folder with the whole service.
  const own = { ...configuration, bridge: { ...configuration.bridge, flows: [], sources: [] } };
  const installation = await openInstallation(own, { name: 'demo', logLevel: 'error' });
  try {
    const programs = await startLocalPrograms(installation, { freePorts: true });
    try {
      return await playAndCompare(installation, programs, options);
    } finally {
      await programs.close();
    }
  } finally {
    await installation.close();
  }
}

async function playAndCompare(
  installation: Installation,
  programs: LocalPrograms,
  options: DemoOptions,
): Promise<number> {
  const began = timestampNow(systemClock);
  const startedMs = performance.now();
  const { kind } = installation.open;
  console.log(`Service ${programs.service.url}, webhooks to ${programs.bridge.webhookUrl('local')}`);
  console.log(
    `Database: ${kind === 'embedded' ? 'embedded PostgreSQL' : 'PostgreSQL server'}; queue on ${installation.configuration.redis_url ? 'Redis' : 'PostgreSQL'}; story seed ${options.seed}\n`,
  );
  const client = clientOf(installation, programs.service.url, programs.setup.deskKey);
  await playStory({ ...options, client, clock: systemClock, pauseMs: 0, tell: (line) => console.log(`  ${line}`) });
  const storyMs = performance.now() - startedMs;
  await waitUntilIdle(installation, programs);
  const restMs = performance.now() - startedMs - storyMs;

  const wanted = await awardsOfService(client);
  const held = await awardsOfFolder(join(installation.dataDir, 'erp-inbox'));
  const equal = printComparison(wanted, held);
  await printLegs(installation, began, storyMs, restMs);
  console.log(
    equal ? '\nThe connector holds exactly what the service awarded.' : '\nTHE CONNECTOR DIFFERS FROM THE SERVICE.',
  );
  return equal ? 0 : 1;
}

/** First the service's outbox, then what the bridge took from it: in this order an empty look is the truth. */
async function waitUntilIdle(installation: Installation, { service }: LocalPrograms): Promise<void> {
  const giveUpMs = systemClock.nowMs() + idleWithinMs;
  while (
    !((await service.isIdle()) && isIdle(await readStatus(installation.open.database), timestampNow(systemClock)))
  ) {
    if (systemClock.nowMs() > giveUpMs)
      throw new AppError('unavailable', `The bridge was not idle within ${idleWithinMs / 1000} s.`);
    await systemClock.sleep(50);
  }
}

/** Lines by award: `<event>/<supplier>` to `lot share cost`. */
type Awards = Map<string, Set<string>>;

const deskEvent = z.looseObject({
  id: z.string(),
  status: z.string(),
  lots: z.array(z.looseObject({ name: z.string() })),
  suppliers: z.array(z.looseObject({ id: z.string(), external_id: z.string() })),
  bids: z.array(z.looseObject({ lot: z.string(), supplier: z.string(), cost: z.string().nullable() })),
  scenarios: z.array(
    z.looseObject({
      awarded: z.boolean(),
      awards: z.array(z.looseObject({ lot: z.string(), supplier: z.string(), share_awarded: z.string() })),
    }),
  ),
});

/** What was awarded, worked out from the buyers' screens: not from the feeds, which the bridge reads. */
async function awardsOfService(client: SourceClient): Promise<Awards> {
  const awards: Awards = new Map();
  for (let page = 1, pages = 1; page <= pages; page += 1) {
    const list = await client.call(
      { method: 'GET', path: `/desk/events?page_size=1000&page_number=${page}` },
      listEnvelope,
    );
    pages = list.num_pages;
    for (const { id } of list.result) {
      const event = await client.call({ method: 'GET', path: `/desk/events/${String(id)}` }, deskEvent);
      if (event.status !== 'CLOSED') continue;
      const supplierId = new Map(event.suppliers.map((supplier) => [supplier.external_id, supplier.id]));
      for (const award of event.scenarios.find(({ awarded }) => awarded)?.awards ?? []) {
        const bid = event.bids.find(({ lot, supplier }) => lot === award.lot && supplier === award.supplier);
        const cost = formatDecimal(new Decimal(bid?.cost ?? 0).times(award.share_awarded));
        addLine(awards, `${event.id}/${supplierId.get(award.supplier)}`, `${award.lot} ${award.share_awarded} ${cost}`);
      }
    }
  }
  return awards;
}

const heldDocument = z.looseObject({
  key: z.string(),
  lines: z.array(z.looseObject({ lot: z.string(), share: z.string(), cost: z.string() })),
});

async function awardsOfFolder(folder: string): Promise<Awards> {
  const awards: Awards = new Map();
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.json')) continue;
    const { key, lines } = heldDocument.parse(JSON.parse(await readFile(join(folder, name), 'utf8')));
    for (const line of lines) addLine(awards, key, `${line.lot} ${line.share} ${line.cost}`);
  }
  return awards;
}

function addLine(awards: Awards, key: string, line: string): void {
  const lines = awards.get(key) ?? new Set();
  awards.set(key, lines.add(lines.has(line) ? `${line} (twice)` : line));
}

function printComparison(wanted: Awards, held: Awards): boolean {
  const count = (awards: Awards) => [...awards.values()].reduce((sum, lines) => sum + lines.size, 0);
  const missing: string[] = [];
  const extra: string[] = [];
  for (const key of new Set([...wanted.keys(), ...held.keys()])) {
    const here = wanted.get(key) ?? new Set();
    const there = held.get(key) ?? new Set();
    for (const line of here) if (!there.has(line)) missing.push(`${key}: ${line}`);
    for (const line of there) if (!here.has(line)) extra.push(`${key}: ${line}`);
  }
  console.log(`
                     service   connector
  awards             ${String(wanted.size).padStart(7)}   ${String(held.size).padStart(9)}
  awarded lots       ${String(count(wanted)).padStart(7)}   ${String(count(held)).padStart(9)}
  missing                      ${String(missing.length).padStart(9)}
  too many or wrong            ${String(extra.length).padStart(9)}`);
  for (const line of missing.slice(0, 10)) console.log(`  missing: ${line}`);
  for (const line of extra.slice(0, 10)) console.log(`  too many or wrong: ${line}`);
  return missing.length === 0 && extra.length === 0 && wanted.size > 0;
}

/** How long each leg took for what changed since `began`, from the times that both sides wrote down. */
async function printLegs(installation: Installation, began: Timestamp, storyMs: number, restMs: number): Promise<void> {
  const leg = async (name: string, select: string) => {
    const [row] = await installation.open.database.query<{ count: number; p50: number | null; most: number | null }>(
      `select count(*)::int as count, percentile_cont(0.5) within group (order by ms) as p50, max(ms) as most
       from (select extract(epoch from took)::float8 * 1000 as ms from (${select}) as legs (took)) as timed`,
      [began],
    );
    const figure = (ms: number | null | undefined) => `${Math.round(ms ?? 0)} ms`.padStart(9);
    console.log(`  ${name.padEnd(44)}${figure(row?.p50)}${figure(row?.most)}${String(row?.count ?? 0).padStart(8)}`);
  };
  console.log(`\n  ${'Leg'.padEnd(44)}${'median'.padStart(9)}${'longest'.padStart(9)}${'count'.padStart(8)}`);
  await leg(
    'change committed -> webhook acknowledged',
    `select finished - created from service.deliveries where state = 'delivered' and created >= $1`,
  );
  await leg(
    'change committed -> record in the mirror',
    'select seen - modified from bridge.mirror where modified >= $1',
  );
  await leg(
    'event closed -> award in the ERP',
    `select d.delivered - e.closed from bridge.flow_documents d
     join service.sourcing_events e on e.id::text = d.sourcing_event where e.closed >= $1 and d.delivered is not null`,
  );
  console.log(
    `\n  story played in ${(storyMs / 1000).toFixed(1)} s, bridge idle ${Math.max(0, restMs / 1000).toFixed(1)} s after it`,
  );
}
