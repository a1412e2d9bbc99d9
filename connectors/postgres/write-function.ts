/**
 * Passes documents to the customer's function. The function is called once per document, in the transaction that
 * records the document in `delivered_document`: both take effect, or neither. The row of the record is locked before
 * the call, so a repeated call, in any process, sees what the first one did.
 */

import { escapeIdentifier } from 'pg';
import { DataError, type Document, type DocumentKind, type Operation, type Outcome } from 'sourcing-bridge/connector';
import type { Tx } from './connections.ts';
import type { Settings } from './settings.ts';
import { storable, tableNames } from './tables.ts';
import { checkKey } from './write-tables.ts';
import type { Known, Writer } from './writer.ts';

/** The arguments of one call. */
export interface FunctionCall {
  readonly document: Document;
  readonly action: Operation['action'];
  readonly contentHash: string;
  readonly idempotencyKey: string;
  readonly json: string;
}

/** The record of a document that the function has taken. */
interface Delivered extends Known {
  readonly key: string;
  readonly idempotency_key: string;
  readonly reference: string;
}

/** The bridge accepts no longer references. */
const referenceCharactersMax = 2_000;

/** `schema.name`, quoted for a statement. */
export function functionName(name: string): string {
  return name.split('.').map(escapeIdentifier).join('.');
}

/** A writer that calls the function of the settings. */
export function createFunctionWriter(kind: DocumentKind, settings: Settings): Writer<FunctionCall> {
  const table = tableNames(settings.schema)('delivered_document');
  const sql = {
    delivered: `select key, state, content_hash, idempotency_key, reference from ${table}
      where kind = $1 and key = any($2::text[])`,
    // Locks the rows of the keys, creating missing ones with version 0. `forget` deletes those that the call did not
    // fill.
    lock: `insert into ${table} (kind, key, state, content_hash, idempotency_key, reference, version, written_at)
      select $1, input.key, 'withdrawn', '', '', '', 0, now() from unnest($2::text[]) as input (key)
      on conflict (kind, key) do update set kind = excluded.kind`,
    call: `select input.key, ${functionName(settings.function ?? '')}(
        $1::text, input.action, input.key, input.content_hash, input.idempotency_key, input.document::jsonb)::text as reference
      from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        as input (key, action, content_hash, idempotency_key, document)`,
    note: `update ${table} as noted set state = input.state, content_hash = input.content_hash,
        idempotency_key = input.idempotency_key, reference = input.reference, version = noted.version + 1, written_at = now()
      from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        as input (key, state, content_hash, idempotency_key, reference)
      where noted.kind = $1 and noted.key = input.key`,
    forget: `delete from ${table} where kind = $1 and key = any($2::text[]) and version = 0`,
  };
  async function readDelivered(tx: Tx, keys: readonly string[]): Promise<ReadonlyMap<string, Delivered>> {
    const rows = await tx.query<Delivered>(sql.delivered, [kind, keys]);
    return new Map(rows.map((row) => [row.key, row]));
  }

  async function callFunction(tx: Tx, calls: readonly FunctionCall[]): Promise<ReadonlyMap<string, string>> {
    const column = (cell: (call: FunctionCall) => string) => calls.map(cell);
    const answers = await tx.query<{ key: string; reference: string | null }>(sql.call, [
      kind,
      column(({ document }) => document.key),
      column(({ action }) => action),
      column(({ contentHash }) => contentHash),
      column(({ idempotencyKey }) => idempotencyKey),
      column(({ json }) => json),
    ]);
    const references = new Map(answers.map(({ key, reference }) => [key, reference || key]));
    for (const reference of references.values())
      if (reference.length > referenceCharactersMax)
        throw new DataError(
          `The function ${settings.function} returned a reference of ${reference.length} characters: it may have ${referenceCharactersMax}.`,
        );
    const referenceFor = ({ document }: FunctionCall) => references.get(document.key) ?? document.key;
    await tx.query(sql.note, [
      kind,
      column(({ document }) => document.key),
      column(({ action }) => (action === 'cancel' ? 'withdrawn' : 'current')),
      column(({ contentHash }) => contentHash),
      column(({ idempotencyKey }) => idempotencyKey),
      column(referenceFor),
    ]);
    return references;
  }

  return {
    readKnown: readDelivered,
    referenceOf: ({ key }, { reference }) => reference || key,
    prepare: ({ document, action, contentHash, idempotencyKey }, file) => {
      checkKey(document);
      const withFile = file && {
        ...document,
        file: {
          name: file.name,
          bytes: file.bytes?.byteLength,
          sha256: file.sha256,
          base64: file.bytes && Buffer.from(file.bytes).toString('base64'),
        },
      };
      const json = JSON.stringify(withFile ?? document);
      return { document, action, contentHash, json, idempotencyKey: storable('the idempotency key', idempotencyKey) };
    },
    apply: async (tx, calls) => {
      const keys = calls.map(({ document }) => document.key);
      await tx.query(sql.lock, [kind, keys]);
      // Read after the lock, to see what a transaction that held one of these rows has committed.
      const delivered = await readDelivered(
        tx,
        calls.map(({ document }) => document.key),
      );
      const due = calls.filter((call) => isDue(call, delivered.get(call.document.key)));
      const references = due.length > 0 ? await callFunction(tx, due) : new Map<string, string>();
      await tx.query(sql.forget, [kind, keys]);
      return calls.map((call) => outcomeFor(call, delivered.get(call.document.key), references));
    },
  };
}

/** Whether the function has to be called. A repeated attempt has the same idempotency key; a replay has another one. */
function isDue({ action, contentHash, idempotencyKey }: FunctionCall, held: Delivered | undefined): boolean {
  if (action === 'cancel') return held?.state === 'current';
  return held?.state !== 'current' || held.content_hash !== contentHash || held.idempotency_key !== idempotencyKey;
}

function outcomeFor(
  { document, action, contentHash }: FunctionCall,
  held: Delivered | undefined,
  references: ReadonlyMap<string, string>,
): Outcome {
  const reference = references.get(document.key) ?? (held?.reference || document.key);
  if (action === 'cancel') return { status: 'cancelled', reference };
  if (held?.state !== 'current') return { status: 'created', reference };
  return { status: held.content_hash === contentHash ? 'unchanged' : 'updated', reference };
}
