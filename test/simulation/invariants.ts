/** What must hold: at each commit of the source, and when the bridge is idle at the end. */
import type { FeedName } from '#contract/feed.ts';
import { msFromTimestamp, parseTimestamp } from '#contract/timestamp.ts';
import { canonical, wantedDocuments } from './oracle.ts';
import { feedsOf, type Simulation } from './simulation.ts';

/** A record is committed with this stamp just now: the watermark must not have passed the stamp. */
export async function checkWatermark(
  { source, sql, world, postgres }: Simulation,
  feed: FeedName,
  stampMicros: number,
): Promise<void> {
  await postgres.flush();
  const watermark = await watermarkOf(sql, feed);
  if (stampMicros === Number.NEGATIVE_INFINITY) return;
  const stamp = source.shownStamp(stampMicros);
  if (watermark !== null && watermark >= stamp)
    world.violate(
      'a watermark never passes a record that is not committed',
      `${feed}: the watermark is ${watermark}, and a record of ${stamp} is committed only now`,
    );
}

async function watermarkOf(sql: Simulation['sql'], feed: FeedName): Promise<string | null> {
  const { rows } = await sql.query<{ watermark: string | null }>({
    name: 'watermark',
    text: 'select watermark from bridge.checkpoints where feed = $1',
    values: [feed],
  });
  return rows[0]?.watermark ?? null;
}

/** How long after the last fault all records that were stamped before it are committed, on every replica. */
export function arrivedMs({ settings }: Simulation['scenario']): number {
  return (settings.latenessS + 1) * 1_000;
}

/** Returns why the bridge is not idle yet; undefined when it is. */
export async function whyNotIdle(
  { world, scenario, sql, source, postgres, underway }: Simulation,
  calmSinceMs: number,
): Promise<string | undefined> {
  const allArrivedMs = calmSinceMs + arrivedMs(scenario);
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
     select 'a notification waits' from bridge.inbox where processed is null
     union all
     select 'flow ' || name || ' is paused: ' || paused_reason from bridge.flows where paused_reason is not null
     union all
     select 'feed ' || feed || ' fails: ' || coalesce(last_error, '') from bridge.checkpoints where failures > 0
     union all
     select 'a version of ' || record_id || ' is suspect' from bridge.suspect_versions
     union all
     select 'feed ' || feed || ' is to be read again at ' || range_start from bridge.rereads
     union all
     select 'feed ' || feed || ' has not been read since' from bridge.checkpoints
     where last_pull is null or (last_pull < $1::timestamptz and not $2)
     limit 1`,
    values: [
      new Date(world.nowMs - world.elapsedMs + allArrivedMs + scenario.processes.skewMs).toISOString(),
      byNotifications(scenario),
    ],
  });
  if (rows[0]) return rows[0].reason;
  // A watermark that waits for the source's clock advances with the next pull. By notifications alone there may be
  // none.
  if (byNotifications(scenario)) return undefined;
  for (const feed of feedsOf(scenario)) {
    const behind = await whyBehind({ sql, source }, feed);
    if (behind !== undefined) return behind;
  }
  return undefined;
}

/** The bridge reads only when a notification asks for it. */
function byNotifications({ settings }: Simulation['scenario']): boolean {
  return settings.pollS > 3_600;
}

/** The watermark must reach the newest record whose stamp is not in the future. */
async function whyBehind(
  { sql, source }: Pick<Simulation, 'sql' | 'source'>,
  feed: FeedName,
): Promise<string | undefined> {
  const watermark = (await watermarkOf(sql, feed)) ?? '';
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
  await checkMirror(simulation);
  await checkErps(simulation);
  await checkInbox(simulation);
}

async function checkMirror({ world, scenario, sql, source }: Simulation): Promise<void> {
  for (const feed of feedsOf(scenario)) {
    const { rows } = await sql.query<{ record_id: string; body: string }>(
      'select record_id, body from bridge.mirror where feed = $1 and gone is null',
      [feed],
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
export function guardWithdrawals({ source, scenario, erps }: Simulation): void {
  const { withdrawals } = scenario.settings;
  if (!withdrawals) return;
  const wanted = () => new Set(wantedDocuments(source, scenario.settings).keys());
  for (const erp of erps.values()) erp.withdrawalRule = { ...withdrawals, wanted };
}

async function checkErps({ world, scenario, source, erps }: Simulation): Promise<void> {
  const wanted = wantedDocuments(source, scenario.settings);
  for (const [name, erp] of erps) {
    const living = erp.living();
    for (const [key, document] of wanted) {
      const object = living.get(key);
      const held = object && canonical(object.content);
      if (held !== canonical(document)) {
        world.violate(
          'the ERP holds the documents of the source',
          `${name} ${key}: ${held} is not ${canonical(document)}`,
        );
        return;
      }
    }
    for (const key of living.keys())
      if (!wanted.has(key)) world.violate('the ERP holds nothing else', `${name} still holds ${key}`);
  }
}

async function checkInbox({ world, sql, accepted, forged }: Simulation): Promise<void> {
  const { rows } = await sql.query<{ body: string }>('select body from bridge.inbox');
  const stored = new Set(rows.map(({ body }) => body));
  for (const body of accepted) if (!stored.has(body)) world.violate('what was accepted is in the inbox', body);
  for (const body of forged) if (stored.has(body)) world.violate('what was forged is not in the inbox', body);
}
