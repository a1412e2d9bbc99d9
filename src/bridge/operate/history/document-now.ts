/** The document as the mirror makes it now: what the ERP should hold. */
import type { DocumentPlace } from '#bridge/ledger/attempts/document-rows.ts';
import type { RecordVersion } from '#bridge/mirror/assemble/made-of.ts';
import { documentHash, makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Document } from '#connector/documents.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface DocumentNow {
  /** Undefined where it cannot be made. */
  readonly document: Document | undefined;
  readonly contentHash: string | undefined;
  /** Why there is no document, or that it is not wanted. */
  readonly note?: string;
  readonly madeOf: readonly RecordVersion[];
}

/** Makes the document with the settings of this process. */
export async function documentNow(
  sql: Sql,
  { flows }: Pick<BridgeSettings, 'flows'>,
  place: DocumentPlace,
): Promise<DocumentNow> {
  const flow = flows.find(({ name }) => name === place.flow);
  const none = { document: undefined, contentHash: undefined, madeOf: [] };
  if (!flow) return { ...none, note: `the flow ${place.flow} is not configured here` };
  const made = (await makeDocuments(sql, flow, [place])).get(`${place.kind} ${place.key}`);
  if (made?.made !== 'document') return { ...none, note: made?.reason ?? 'it cannot be made' };
  const note = made.wanted ? {} : { note: 'the ERP should hold nothing of it' };
  return { document: made.document, contentHash: documentHash(made.document), madeOf: made.madeOf, ...note };
}
