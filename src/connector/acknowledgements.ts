/** What the ERP is told of its requisitions: which event was made of each, and what became of it. */

export const acknowledgedStatuses = [
  'created',
  'published',
  'closed',
  'awarded',
  'deleted',
  'removed',
  'failed',
] as const;

/**
 * `created`: the event is a draft, or a request was made. `awarded`: a supplier has won at least one of its lots.
 * `deleted`: the event was. `removed`: it was withdrawn, and its lots were taken out of the event. `failed`: nothing was
 * made of it.
 */
export type AcknowledgedStatus = (typeof acknowledgedStatuses)[number];

/** The newest news of one requisition: the ERP should show it in place of what it was told before. */
export interface Acknowledgement {
  /** The `reference_id` of the record that `read` returned. */
  readonly requisition: string;
  readonly status: AcknowledgedStatus;
  /** What was made of it; absent where nothing was. */
  readonly event?: {
    readonly kind: 'event' | 'request';
    /** The service's id. */
    readonly id: string;
    readonly name: string;
    /** The numbers of its requisitions, by which a person finds it at the service: `PR-7, PR-8`. */
    readonly reference: string;
    /** Where a person sees it, if the settings say so. */
    readonly url?: string;
  };
  /** Of `failed`: the reason, in the service's words. */
  readonly reason?: string;
  /** All of this in one line for a person, of at most 2,000 characters. */
  readonly text: string;
  /** Stays the same for every attempt, and is another for each news. */
  readonly idempotencyKey: string;
}

/** News as a row: its columns, which are the same in every file and table. */
export const acknowledgementCells = {
  requisition: ({ requisition }: Acknowledgement) => requisition,
  status: ({ status }: Acknowledgement) => status,
  event_kind: ({ event }: Acknowledgement) => event?.kind,
  event_id: ({ event }: Acknowledgement) => event?.id,
  event_name: ({ event }: Acknowledgement) => event?.name,
  event_reference: ({ event }: Acknowledgement) => event?.reference,
  link: ({ event }: Acknowledgement) => event?.url,
  reason: ({ reason }: Acknowledgement) => reason,
  text: ({ text }: Acknowledgement) => text,
  news_key: ({ idempotencyKey }: Acknowledgement) => idempotencyKey,
};
