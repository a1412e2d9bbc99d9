/**
 * The proof of the demo: compares the awards, computed from the buyers' screens, with the content of the connector's
 * folder, line by line.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import { listEnvelope } from '#contract/list.ts';

/** The lines of each award: `<event>/<supplier>` to `<lot> <share> <cost>`. */
export type Awards = Map<string, Set<string>>;

const deskEvent = z.looseObject({
  id: z.string(),
  status: z.string(),
  closed: z.string().nullable(),
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

export interface ServiceAwards {
  awards: Awards;
  /** Ids of events that are open again: until they close, the feed shows what they were awarded before. */
  reopened: Set<string>;
}

/** The awards, computed from the buyers' screens and not from the feeds, which the bridge reads. */
export async function awardsOfService(client: SourceClient): Promise<ServiceAwards> {
  const awards: Awards = new Map();
  const reopened = new Set<string>();
  for (let page = 1, pages = 1; page <= pages; page += 1) {
    const list = await client.call(
      { method: 'GET', path: `/desk/events?page_size=1000&page_number=${page}` },
      listEnvelope,
    );
    pages = list.num_pages;
    for (const { id } of list.result) {
      const event = await client.call({ method: 'GET', path: `/desk/events/${String(id)}` }, deskEvent);
      if (event.status !== 'CLOSED') {
        if (event.closed !== null && event.status !== 'DELETED') reopened.add(event.id);
        continue;
      }
      const supplierId = new Map(event.suppliers.map((supplier) => [supplier.external_id, supplier.id]));
      for (const award of event.scenarios.find(({ awarded }) => awarded)?.awards ?? []) {
        const bid = event.bids.find(({ lot, supplier }) => lot === award.lot && supplier === award.supplier);
        const cost = formatDecimal(new Decimal(bid?.cost ?? 0).times(award.share_awarded));
        addLine(awards, `${event.id}/${supplierId.get(award.supplier)}`, `${award.lot} ${award.share_awarded} ${cost}`);
      }
    }
  }
  return { awards, reopened };
}

const heldDocument = z.looseObject({
  key: z.string(),
  lines: z.array(z.looseObject({ lot: z.string(), share: z.string(), cost: z.string() })),
});

/**
 * The awards in the file connector's folder, without those of the events in `except`. Throws when a file is not a
 * complete document.
 */
export async function awardsOfFolder(folder: string, except: ReadonlySet<string> = new Set()): Promise<Awards> {
  const awards: Awards = new Map();
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.json')) continue;
    const { key, lines } = heldDocument.parse(JSON.parse(await readFile(join(folder, name), 'utf8')));
    if (except.has(key.slice(0, key.indexOf('/')))) continue;
    for (const line of lines) addLine(awards, key, `${line.lot} ${line.share} ${line.cost}`);
  }
  return awards;
}

function addLine(awards: Awards, key: string, line: string): void {
  const lines = awards.get(key) ?? new Set();
  awards.set(key, lines.add(lines.has(line) ? `${line} (twice)` : line));
}

/** The lines that only one side has, each with its award. */
export interface AwardDifference {
  missing: string[];
  /** Lines that are too many, or not as awarded. */
  extra: string[];
}

/** Compares the awards of the service (`wanted`) with those of the connector (`held`). */
export function compareAwards(wanted: Awards, held: Awards): AwardDifference {
  const difference: AwardDifference = { missing: [], extra: [] };
  for (const key of new Set([...wanted.keys(), ...held.keys()])) {
    const here = wanted.get(key) ?? new Set();
    const there = held.get(key) ?? new Set();
    difference.missing.push(...[...here.difference(there)].map((line) => `${key}: ${line}`));
    difference.extra.push(...[...there.difference(here)].map((line) => `${key}: ${line}`));
  }
  return difference;
}
