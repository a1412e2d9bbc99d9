/** The versions of a document that were sent to the ERP, and what differs between them. */
import type { RecordVersion } from '#bridge/mirror/assemble/made-of.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { DocumentPlace } from './document-rows.ts';

export interface SentVersion {
  /** 1 is the oldest that is kept. */
  readonly number: number;
  readonly contentHash: string;
  /** When it was sent first. */
  readonly sent: Timestamp;
  /** The action and the outcome of its last attempt; null when the attempts are not kept any more. */
  readonly action: string | null;
  readonly outcome: string | null;
  readonly reference: string | null;
  readonly amount: string | null;
  readonly currency: string | null;
  /** Whether it is what the ERP took last. */
  readonly isDelivered: boolean;
  /** The document; null where it was too long to be kept. */
  readonly document: unknown;
  readonly madeOf: readonly RecordVersion[];
}

/** A document changes rarely so often; the oldest are left out, and the numbers tell. */
const versionsMax = 100;

/** Returns the versions that were sent, the oldest first; at most the newest 100. */
export async function readVersions(sql: Sql, place: DocumentPlace): Promise<SentVersion[]> {
  const rows = await sql.query<
    Omit<SentVersion, 'document' | 'madeOf' | 'number'> & { body: string | null; madeOf: string; place: number }
  >(
    `select * from (
       select v.content_hash as "contentHash", v.body, v.made_of as "madeOf",
         coalesce(a.first, v.sent) as sent, a.action, a.outcome, a.reference, a.amount, a.currency,
         v.content_hash is not distinct from d.delivered_hash as "isDelivered",
         row_number() over (order by coalesce(a.first, v.sent), v.content_hash) as place
       from bridge.document_versions v
       left join bridge.flow_documents d on d.flow = v.flow and d.kind = v.kind and d.key = v.key
       left join lateral (
         select min(started) as first, (array_agg(action order by id desc))[1] as action,
           (array_agg(outcome order by id desc))[1] as outcome, (array_agg(reference order by id desc))[1] as reference,
           (array_agg(amount order by id desc))[1] as amount, (array_agg(currency order by id desc))[1] as currency
         from bridge.attempts a
         where a.key = v.key and a.flow = v.flow and a.kind = v.kind and a.content_hash = v.content_hash
           and a.step <> 'wait') a on true
       where v.flow = $1 and v.kind = $2 and v.key = $3) versions
     order by place desc limit ${versionsMax}`,
    [place.flow, place.kind, place.key],
  );
  return rows.reverse().map(({ body, madeOf, place: number, ...row }) => ({
    ...row,
    number,
    document: body === null ? null : (JSON.parse(body) as unknown),
    madeOf: JSON.parse(madeOf) as RecordVersion[],
  }));
}
