/** More records of the feeds than in parts.ts, and events as the documents of a flow see them. */
import { type EventInFlow, type EventSources, parseEvent } from '#bridge/documents/event-parts.ts';
import { flowFilter } from '#bridge/documents/flow-filter.ts';
import type { MadeDocument, NotMade } from '#bridge/documents/made-document.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { flowOf, nextModified, type TestRecord } from '../parts.ts';

export function inFlow(sources: EventSources, flow: Partial<FlowSettings> = {}): EventInFlow | NotMade {
  return parseEvent(sources, flowFilter(flowOf(flow)));
}

/** Returns the document of a result; throws when there is none. */
export function documentOf<Document>(made: MadeDocument<Document>): Document {
  if (made.made !== 'document') throw new Error(`${made.made}: ${made.reason}`);
  return made.document;
}

export const standing = (records: readonly unknown[]) => records.map((record) => ({ record, gone: false }));

export function bidRecord(
  id: string,
  event: string,
  supplier: string,
  cost: string | null,
  more: Record<string, unknown> = {},
): TestRecord {
  return {
    id,
    sourcing_event: event,
    supplier,
    lot_name: `Lot ${id.slice(-3)}`,
    bids: cost === null ? [] : [{ value: cost }],
    bid_sheet_values: cost === null ? [] : [{ column_name: 'Price', value: cost }],
    modified: nextModified(),
    ...more,
  };
}

export interface AnswerRecord extends Record<string, unknown> {
  id: number;
  modified: string;
}

export function answerRecord(
  id: number,
  event: string,
  supplier: string,
  question: string,
  more: Record<string, unknown> = {},
): AnswerRecord {
  return {
    id,
    sourcing_event: event,
    supplier,
    question_uuid: question,
    modified: nextModified(),
    ...more,
  };
}

export function questionObject(id: string, event: string, identifier: string, more: Record<string, unknown> = {}) {
  return {
    id,
    sourcing_event: event,
    identifier,
    question_text: `What of ${identifier}?`,
    question_type: 'OPTIONAL',
    input_type: 'TEXT',
    categories: [],
    options: [],
    allow_comments: false,
    supporting_documents_enabled: false,
    attachment_file_uuids: [],
    modified: nextModified(),
    ...more,
  };
}
