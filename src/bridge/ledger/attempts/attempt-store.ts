/** Writes the history of deliveries: attempts and the versions that were sent, a batch with one statement each. */
import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import type { Attempt, DocumentVersion } from './attempt.ts';

const insertAttempts = prepared(
  `insert into bridge.attempts (flow, id, kind, key, sourcing_event, event_name, event_reference, supplier,
     supplier_name, supplier_external_id, amount, currency, action, step, outcome, number, started, ended, next_try,
     error_type, message, reference, content_hash, request_id, pull)
   select $1, a.* from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
     $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::int[],
     $17::timestamptz[], $18::timestamptz[], $19::timestamptz[], $20::text[], $21::text[], $22::text[], $23::text[],
     $24::uuid[], $25::uuid[]) as a
   on conflict do nothing`,
);

/** Names of the service have no length that the bridge could rely on. */
const nameCharactersMax = 500;

/**
 * Writes attempts of one flow, in the transaction that settles them. Written a second time, after a COMMIT whose answer
 * was lost, they stay as they are.
 */
export async function writeAttempts(tx: Sql, flow: string, attempts: readonly Attempt[]): Promise<void> {
  if (attempts.length === 0) return;
  const texts = (valueOf: (attempt: Attempt) => string | null) => attempts.map(valueOf);
  const names = (valueOf: (attempt: Attempt) => string | null) =>
    texts((attempt) => valueOf(attempt)?.replaceAll('\0', '').slice(0, nameCharactersMax).toWellFormed() ?? null);
  await tx.query(insertAttempts, [
    flow,
    attempts.map(({ id }) => id),
    texts(({ kind }) => kind),
    texts(({ key }) => key),
    texts(({ sourcingEvent }) => sourcingEvent),
    names(({ eventName }) => eventName),
    names(({ eventReference }) => eventReference),
    texts(({ supplier }) => supplier),
    names(({ supplierName }) => supplierName),
    names(({ supplierExternalId }) => supplierExternalId),
    texts(({ amount }) => amount),
    texts(({ currency }) => currency),
    texts(({ action }) => action),
    texts(({ step }) => step),
    texts(({ outcome }) => outcome),
    attempts.map(({ number }) => number),
    attempts.map(({ started }) => started),
    attempts.map(({ ended }) => ended),
    attempts.map(({ nextTry }) => nextTry),
    texts(({ errorType }) => errorType),
    texts(({ message }) => (message === null ? null : storableText(message).toWellFormed())),
    texts(({ reference }) => reference),
    texts(({ contentHash }) => contentHash),
    attempts.map(({ requestId }) => requestId),
    attempts.map(({ pull }) => pull),
  ]);
}

/** A version that is sent again is not written again; only its time is kept true to a day, as pruning looks at it. */
const insertVersions = prepared(
  `insert into bridge.document_versions as v (flow, sent, kind, key, content_hash, body, made_of)
   select $1, $2, s.* from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) as s
   order by 3, 4, 5
   on conflict (flow, kind, key, content_hash) do update set sent = excluded.sent
     where v.sent < excluded.sent - interval '1 day'`,
);

/** Writes the contents that were sent to the ERP, in the transaction that settles their outcomes. */
export async function writeVersions(
  tx: Sql,
  flow: string,
  versions: readonly DocumentVersion[],
  now: Timestamp,
): Promise<void> {
  if (versions.length === 0) return;
  await tx.query(insertVersions, [
    flow,
    now,
    versions.map(({ kind }) => kind),
    versions.map(({ key }) => key),
    versions.map(({ contentHash }) => contentHash),
    // JSON escapes what a database cannot store, except for a lone surrogate, which `JSON.stringify` escapes as well.
    versions.map(({ body }) => body),
    versions.map(({ madeOf }) => JSON.stringify(madeOf)),
  ]);
}
