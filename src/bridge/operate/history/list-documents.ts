/**
 * Lists documents by what a person filters for: flow, kind, state, event, supplier, time, amount, words. Pages go by key
 * and not by number, so the thousandth costs what the first does, and a document that moves is never the reason why
 * another one is skipped.
 */
import {
  type DocumentPlace,
  type DocumentRow,
  isNamedLike,
  type ShownDocument,
  shownColumns,
  shownDocumentOf,
  subjectJoins,
} from '#bridge/ledger/attempts/document-rows.ts';
import { sameWords } from '#bridge/ledger/flows/dead-letter-reasons.ts';
import { foldText } from '#bridge/mirror/subjects.ts';
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { escapeLike, wordsOf } from './search-words.ts';

/** A state as a filter knows it: `waiting` includes what is under way. */
export const listedStates = ['delivered', 'waiting', 'dead letter', 'held', 'cancelled', 'nothing'] as const;
export type ListedState = (typeof listedStates)[number];

export interface DocumentFilter {
  /** Undefined: all flows. */
  readonly flows?: readonly string[] | undefined;
  readonly kinds?: readonly DocumentKind[] | undefined;
  readonly state?: ListedState | undefined;
  /** The reason of a group of dead letters: with the state `dead letter`. */
  readonly reason?: string | undefined;
  /** The service's ids. */
  readonly event?: string | undefined;
  readonly supplier?: string | undefined;
  /** Each word must be in the name of the event or the supplier, or in the ERP's reference. */
  readonly text?: string | undefined;
  /** When it changed last in the bridge, from (included) and to (not included). */
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
  /** Decimals, both included. */
  readonly amountMin?: string | undefined;
  readonly amountMax?: string | undefined;
}

export interface ListedDocument extends ShownDocument {
  /** The total that was sent last, a decimal in `currency`; null where nothing with a total was sent. */
  readonly amount: string | null;
  readonly currency: string | null;
  /** When it was delivered, refused or marked as due last. */
  readonly changed: Timestamp;
}

/** The place of a document in the list: where the next page begins. */
export type DocumentListPlace = DocumentPlace & Pick<ListedDocument, 'changed'>;

/** Of a document that was neither delivered nor due: before all others. */
const changed = `coalesce(greatest(d.delivered, d.waiting_since, d.dead_since), 'epoch')`;

const stateConditions: Record<ListedState, string> = {
  'dead letter': 'd.dead_since is not null',
  waiting: 'd.due is not null and d.dead_since is null',
  held: `d.dead_since is null and d.due is null and d.error_type = 'held'`,
  delivered: `d.dead_since is null and d.due is null and d.error_type is distinct from 'held'
    and d.delivered_hash is not null`,
  cancelled: `d.dead_since is null and d.due is null and d.error_type is distinct from 'held'
    and d.delivered_hash is null and d.delivered is not null`,
  nothing: `d.dead_since is null and d.due is null and d.error_type is distinct from 'held'
    and d.delivered_hash is null and d.delivered is null`,
};

const amountJoin = `left join lateral (select a.amount, a.currency from bridge.attempts a
  where a.key = d.key and a.flow = d.flow and a.kind = d.kind and a.amount is not null order by a.id desc limit 1) m on true`;

/** Returns a page of the documents that match, those that changed last first. */
export async function listDocuments(
  sql: Sql,
  filter: DocumentFilter,
  { now, limit, after }: { now: Timestamp; limit: number; after?: DocumentListPlace | undefined },
): Promise<{ documents: ListedDocument[]; hasMore: boolean }> {
  const params: unknown[] = [];
  const param = (value: unknown) => `$${params.push(value)}`;
  const conditions = conditionsOf(filter, param);
  if (after)
    conditions.push(
      `(${changed}, d.flow, d.kind, d.key) < (${param(after.changed)}, ${param(after.flow)}, ${param(after.kind)}, ${param(after.key)})`,
    );
  const byAmount = amountParts(filter, param);
  conditions.push(...byAmount.conditions);
  const rows = await sql.query<DocumentRow & Pick<ListedDocument, 'amount' | 'currency' | 'changed'>>(
    // The names are joined to the page alone.
    `with ${byAmount.with} page as (
       select d.*, ${changed} as changed from bridge.flow_documents d
       join bridge.flows f on f.name = d.flow and d.kind = any(f.kinds)
       ${byAmount.with === '' ? '' : amountJoin}
       ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
       order by changed desc, d.flow desc, d.kind desc, d.key desc limit ${Math.trunc(limit) + 1})
     select ${shownColumns}, m.amount, m.currency, d.changed
     from page d join bridge.flows f on f.name = d.flow ${subjectJoins} ${amountJoin}
     order by d.changed desc, d.flow desc, d.kind desc, d.key desc`,
    params,
  );
  const documents = rows.slice(0, limit).map((row) => {
    const { amount, currency, changed } = row;
    return { ...shownDocumentOf(row, now), amount, currency, changed };
  });
  return { documents, hasMore: rows.length > limit };
}

function conditionsOf(filter: DocumentFilter, param: (value: unknown) => string): string[] {
  const { flows, kinds, state, reason, event, supplier, text, from, to } = filter;
  return [
    ...(flows ? [`d.flow = any(${param(flows)})`] : []),
    ...(kinds ? [`d.kind = any(${param(kinds)})`] : []),
    ...(state ? [`(${stateConditions[state]})`] : []),
    ...(reason === undefined ? [] : [`${sameWords} = ${param(reason)}`]),
    ...(event === undefined ? [] : [`d.sourcing_event = ${param(event)}`]),
    ...(supplier === undefined ? [] : [`d.supplier = ${param(supplier)}`]),
    ...(from === undefined ? [] : [`${changed} >= ${param(from)}`]),
    ...(to === undefined ? [] : [`${changed} < ${param(to)}`]),
    ...(text === undefined ? [] : wordsOf(text).map((word) => wordCondition(word, param))),
  ];
}

function wordCondition(word: string, param: (value: unknown) => string): string {
  const folded = param(`%${escapeLike(foldText(word))}%`);
  return `(${isNamedLike(folded)} or d.reference like ${param(`%${escapeLike(word)}%`)})`;
}

/**
 * The documents of which some attempt had such an amount, so that the last amount is looked up for those only; and what
 * must hold of that one. Both are empty without a filter by amount.
 */
function amountParts(
  { amountMin, amountMax }: DocumentFilter,
  param: (value: unknown) => string,
): { with: string; conditions: string[] } {
  const conditionsOn = (amount: string) => [
    ...(amountMin === undefined ? [] : [`${amount}::numeric >= ${param(amountMin)}::numeric`]),
    ...(amountMax === undefined ? [] : [`${amount}::numeric <= ${param(amountMax)}::numeric`]),
  ];
  const any = conditionsOn('a.amount');
  if (any.length === 0) return { with: '', conditions: [] };
  return {
    with: `amounts as materialized (
       select a.flow, a.kind, a.key from bridge.attempts a where ${any.join(' and ')}),`,
    conditions: ['(d.flow, d.kind, d.key) in (select flow, kind, key from amounts)', ...conditionsOn('m.amount')],
  };
}
