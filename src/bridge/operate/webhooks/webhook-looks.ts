/** The rows of `bridge.webhook_looks`, one operation a function. */
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface WebhookFault {
  readonly uuid: string;
  readonly url: string;
  /** `off`: switched off by the service; `gone`: the service has it no more; `failing`: its deliveries fail. */
  readonly kind: 'off' | 'gone' | 'failing';
  /** The service's words on its newest delivery, and what the receiver answered; null: not known. */
  readonly why: string | null;
  readonly status: number | null;
  /** Since when, as far as the log of deliveries shows it. */
  readonly since: Timestamp | null;
}

export interface SourceFault extends WebhookFault {
  readonly source: string;
}

const lookEveryMs = 5 * 60_000;
/** A time in the future was written before the clock was set back. */
const isRecent = 'l.looked > $2 and l.looked <= $1';
const bounds = (now: Timestamp): Timestamp[] => [now, addMicros(now, -lookEveryMs * 1000)];

/**
 * Returns the sources of `names` whose webhooks are to be looked at now. A source has webhooks when this bridge has
 * registered one, or when it is one of `byHand`; and one whose fault is shown is looked at until it has none.
 */
export async function readDueLooks(
  sql: Sql,
  { names, byHand, now }: { names: readonly string[]; byHand: readonly string[]; now: Timestamp },
): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `select s.name from unnest($3::text[]) as s (name) left join bridge.webhook_looks l on l.source = s.name
     where (s.name = any($4) or l.fault is not null or exists (
         select from bridge.webhooks w where w.source = s.name and w.secret is not null and w.retired is null))
       and (${isRecent}) is not true`,
    [...bounds(now), names, byHand],
  );
  return rows.map(({ name }) => name);
}

/** Notes that the source is looked at; false when another process has done so. One that dies then leaves it for the next time. */
export async function claimLook(sql: Sql, source: string, now: Timestamp): Promise<boolean> {
  const claimed = await sql.query(
    `insert into bridge.webhook_looks as l (source, looked) values ($3, $1)
     on conflict (source) do update set looked = $1 where not (${isRecent}) returning source`,
    [...bounds(now), source],
  );
  return claimed.length > 0;
}

/** Stores what the look that was claimed at `looked` has found, unless another one has begun meanwhile. */
export async function storeFault(
  sql: Sql,
  source: string,
  { looked, fault }: { looked: Timestamp; fault: WebhookFault | null },
): Promise<void> {
  await sql.query('update bridge.webhook_looks set fault = $3 where source = $1 and looked = $2', [
    source,
    looked,
    fault && JSON.stringify(fault),
  ]);
}

/** What was found holds no more: the webhooks have changed. */
export async function forgetLook(sql: Sql, source: string): Promise<void> {
  await sql.query('delete from bridge.webhook_looks where source = $1', [source]);
}

/** Returns what the last looks have found. */
export async function readWebhookFaults(sql: Sql): Promise<SourceFault[]> {
  const rows = await sql.query<{ source: string; fault: WebhookFault }>(
    'select source, fault from bridge.webhook_looks where fault is not null order by source',
  );
  return rows.map(({ source, fault }) => ({ source, ...fault }));
}
