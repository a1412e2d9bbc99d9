/** What must hold: at each commit of the source, and when the bridge is idle at the end. */
import type { FeedName } from '#contract/feed.ts';
import { msFromTimestamp, parseTimestamp } from '#contract/timestamp.ts';
import { canonical, wantedDocuments } from './oracle.ts';
import { fileText } from './simulated-service.ts';
import { feedsOf, type SimulatedSource, type Simulation } from './simulation.ts';

/** A record is committed with this stamp just now: the watermark must not have passed the stamp. */
export async function checkWatermark(
  { sql, world, postgres }: Simulation,
  { name, source }: SimulatedSource,
  feed: FeedName,
  stampMicros: number,
): Promise<void> {
  await postgres.flush();
  const watermark = await watermarkOf(sql, name, feed);
  if (stampMicros === Number.NEGATIVE_INFINITY) return;
  const stamp = source.shownStamp(stampMicros);
  if (watermark !== null && watermark >= stamp)
    world.violate(
      'a watermark never passes a record that is not committed',
      `${feed}: the watermark is ${watermark}, and a record of ${stamp} is committed only now`,
    );
}

async function watermarkOf(sql: Simulation['sql'], source: string, feed: FeedName): Promise<string | null> {
  const { rows } = await sql.query<{ watermark: string | null }>({
    name: 'watermark',
    text: 'select watermark from bridge.checkpoints where source = $1 and feed = $2',
    values: [source, feed],
  });
  return rows[0]?.watermark ?? null;
}

/** How long after the last fault all records that were stamped before it are committed, on every replica. */
export function arrivedMs({ sources }: Simulation): number {
  return (Math.max(...sources.map(({ scenario }) => scenario.settings.latenessS)) + 1) * 1_000;
}

/** Returns why the bridge is not idle yet; undefined when it is. */
export async function whyNotIdle(simulation: Simulation, calmSinceMs: number): Promise<string | undefined> {
  const { world, scenario, sql, sources, postgres, underway } = simulation;
  const allArrivedMs = calmSinceMs + arrivedMs(simulation);
  if (world.elapsedMs < allArrivedMs) return 'the source has just calmed down';
  if (underway.size > 0) return 'a notification is under way';
  await postgres.flush();
  // Asked every two seconds: under a name, PostgreSQL parses and plans it once.
  const { rows } = await sql.query<{ reason: string }>({
    name: 'why not idle',
    text: `select 'document ' || key || ' is due ' || due || ' ' || coalesce(last_error, '') as reason
     from bridge.flow_documents where due is not null
     union all
     select 'document ' || key || ' is a dead letter: ' || coalesce(last_error, '') from bridge.flow_documents
     where dead_since is not null
     union all
     select 'a notification waits' from bridge.inbox join bridge.checkpoints using (source, feed) where id > answered
     union all
     select 'job ' || job || ' is to be read' from bridge.jobs where next_look is not null
     union all
     select 'flow ' || name || ' is paused: ' || paused_reason from bridge.flows where paused_reason is not null
     union all
     select 'feed ' || feed || ' fails: ' || coalesce(last_error, '') from bridge.checkpoints where failures > 0
     union all
     select 'feed ' || feed || ' has not been read since' from bridge.checkpoints
     where last_pull is null or (last_pull < $1::timestamptz and source <> all($2))
     union all
     select 'the supplier list has not been read since' from bridge.supplier_lists
     where last_pull is null or last_pull < $1 or failures > 0
     union all
     select 'backfill ' || id || ' has not ended: ' || coalesce(last_error, '') from bridge.backfills
     where finished is null and cancelled is null and (kind = 'range' or failures > 0) and source || '/' || feed = any($4)
       -- Only where records have no time are they missing while the pages without a filter break off; status says so.
       and (kind <> 'untimed' or source = any($8))
     union all
     -- One that is due by its schedule waits for the next sweep; of several feeds one always may.
     select 'feed ' || feed || ' is due' from bridge.checkpoints
     -- One whose source allows few requests a minute may wait for the next minute.
     where next_pull <= $3 and case when source = any($7) then next_pull < $5::timestamptz - interval '1 minute'
       else next_pull <= $5 or next_pull < last_pull + $6 * interval '1 second' end
     limit 1`,
    values: [
      new Date(world.nowMs - world.elapsedMs + allArrivedMs + scenario.processes.skewMs).toISOString(),
      sources.filter((each) => byNotifications(each.scenario)).map(({ name }) => name),
      new Date(world.nowMs - scenario.processes.skewMs).toISOString(),
      sources.flatMap(provableFeeds),
      new Date(world.nowMs - scenario.processes.skewMs - 2 * scenario.settings.sweepMs).toISOString(),
      Math.min(...sources.map((each) => each.scenario.settings.pollS)) / 2,
      sources.filter((each) => each.scenario.quirks.perMinute !== null).map(({ name }) => name),
      sources.filter((each) => (each.scenario.quirks.undated ?? 0) > 0).map(({ name }) => name),
    ],
  });
  if (rows[0]) return rows[0].reason;
  for (const each of sources) {
    // A watermark that waits for the source's clock advances with the next pull. By notifications alone there may be
    // none.
    if (byNotifications(each.scenario)) continue;
    for (const feed of feedsOf(each.scenario)) {
      const behind = await whyBehind(sql, each, feed);
      if (behind !== undefined) return behind;
    }
  }
  return undefined;
}

/**
 * The feeds in which a backfill can end. Where no record has a time, windows show nothing, and "no rows" may come from a
 * source whose index is away: such a backfill is tried again, and says so.
 */
function provableFeeds({ name, source, scenario }: SimulatedSource): string[] {
  return feedsOf(scenario)
    .filter((feed) => [...source.currents(feed).values()].some(({ modified }) => modified !== undefined))
    .map((feed) => `${name}/${feed}`);
}

/** The bridge reads only when a notification asks for it. */
function byNotifications({ settings }: Simulation['scenario']): boolean {
  return settings.pollS > 3_600;
}

/** The watermark must reach the newest record whose stamp is not in the future. */
async function whyBehind(
  sql: Simulation['sql'],
  { name, source }: SimulatedSource,
  feed: FeedName,
): Promise<string | undefined> {
  const watermark = (await watermarkOf(sql, name, feed)) ?? '';
  const newest = [...source.currents(feed).values()]
    .flatMap(({ modified }) => (typeof modified === 'string' ? [parseTimestamp(modified) ?? ''] : []))
    .filter((stamp) => !source.isFuture(msFromTimestamp(stamp) * 1_000))
    .sort()
    .at(-1);
  if (newest === undefined || watermark >= newest) return undefined;
  return `the watermark of ${feed} is ${watermark}, and its newest record is of ${newest}`;
}

/** Checks the mirror, the ERPs and the inbox, once the bridge is idle. */
export async function checkEnd(simulation: Simulation): Promise<void> {
  await simulation.postgres.flush();
  for (const each of simulation.sources) {
    await checkMirror(simulation, each);
    checkErps(simulation, each);
  }
  await checkInbox(simulation);
}

async function checkMirror({ world, sql }: Simulation, { name, scenario, source }: SimulatedSource): Promise<void> {
  for (const feed of feedsOf(scenario)) {
    const { rows } = await sql.query<{ record_id: string; body: string }>(
      'select record_id, body from bridge.mirror where source = $1 and feed = $2 and gone is null',
      [name, feed],
    );
    const held = new Map(rows.map(({ record_id: id, body }) => [id, canonical(JSON.parse(body))]));
    for (const [id, body] of source.currents(feed))
      if (held.get(id) !== canonical(body)) {
        world.violate(
          'the mirror holds what the source shows',
          `${feed} ${id}: ${held.get(id)} is not ${canonical(body)}`,
        );
        return;
      }
  }
}

/**
 * A flow that is guarded against mass withdrawals cancels no more than its settings allow, until an operator agrees.
 */
export function guardWithdrawals(simulation: Simulation): void {
  for (const each of simulation.sources) {
    const { withdrawals } = each.scenario.settings;
    if (!withdrawals) continue;
    const wanted = () => new Set(wantedOf(simulation, each).keys());
    for (const erp of each.erps.values()) erp.withdrawalRule = { ...withdrawals, wanted };
  }
}

/** Of jobs those whose end was told: nothing else names them. */
function wantedOf({ accepted }: Simulation, { name, source, service, scenario }: SimulatedSource) {
  const told = accepted.flatMap((body) => {
    const { payload } = JSON.parse(body) as { payload: { job?: string; source?: string } };
    return payload.job !== undefined && (payload.source ?? 'main') === name ? [payload.job] : [];
  });
  const jobs = [...service.eventJobs].flatMap(([id, { ended }]) => (told.includes(id) ? [{ id, ...ended }] : []));
  return wantedDocuments(source, { suppliers: service.suppliers.values(), jobs }, scenario.settings);
}

function checkErps(simulation: Simulation, each: SimulatedSource): void {
  const { world } = simulation;
  const wanted = wantedOf(simulation, each);
  for (const [name, erp] of each.erps) {
    const living = erp.living();
    for (const [key, document] of wanted) {
      const object = living.get(key);
      // The CSV says once more what the lines say.
      const held = object && canonical({ ...object.content, bid_sheet_csv: undefined });
      if (held !== canonical(document)) {
        world.violate(
          'the ERP holds the documents of the source',
          `${name} ${key}: ${held} is not ${canonical(document)}`,
        );
        return;
      }
    }
    for (const { content, text } of living.values())
      if (content.kind === 'file' && text !== fileText(content.key))
        world.violate('the ERP holds the bytes of each file', `${name} ${content.key}: ${text}`);
    for (const key of living.keys())
      if (!wanted.has(key) && !mayStay(each, key))
        world.violate('the ERP holds nothing else', `${name} still holds ${key}`);
  }
}

/** While its event is not closed, the document of all its awards stays as it is. */
function mayStay({ source }: SimulatedSource, place: string): boolean {
  const [kind, id = ''] = place.split(' ');
  const event = source.currents('sourcing-events').get(id);
  return kind === 'event-awards' && event !== undefined && !['CLOSED', 'DELETED'].includes(String(event['status']));
}

async function checkInbox({ world, sql, accepted, forged }: Simulation): Promise<void> {
  const { rows } = await sql.query<{ body: string }>('select body from bridge.inbox');
  const stored = new Set(rows.map(({ body }) => body));
  for (const body of accepted) if (!stored.has(body)) world.violate('what was accepted is in the inbox', body);
  for (const body of forged) if (stored.has(body)) world.violate('what was forged is not in the inbox', body);
}
