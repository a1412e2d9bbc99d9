/**
 * What an alert is: something that needs a person, from when it was noticed until it is over. Its id stays the same for
 * that whole time, and what is the same again later has another id.
 */
import type { Timestamp } from '#contract/timestamp.ts';

export const alertKinds = [
  'dead-letters',
  'flow-paused',
  'erp-behind',
  'feed-behind',
  'feed-stalled',
  'feed-unfiltered',
  'field-gone',
  'signatures-refused',
  'certificate',
  'intake-paused',
  'intake-behind',
  'suppliers-refused',
  'erp-differs',
  'comparison-late',
] as const;
export type AlertKind = (typeof alertKinds)[number];

/** Something that is wrong now. */
export interface Condition {
  readonly kind: AlertKind;
  /** What it is about: `flow sap`, `intake vendors`, `feed main/awards`, `source main`, `certificate`. */
  readonly subject: string;
  /** Tells the alerts of one kind and subject apart: what the ERP said. Empty where there is only one. */
  readonly group: string;
  /** One sentence for a person, without secrets. */
  readonly summary: string;
  /** What to do about it. */
  readonly action: string;
}

export interface Alert extends Condition {
  readonly id: string;
  readonly started: Timestamp;
  readonly ended: Timestamp | null;
}

export type NoticeEvent = 'started' | 'reminder' | 'ended';

/** One message to one channel: what a receiver gets as JSON, and what the other forms are made of. */
export interface AlertMessage {
  /** The same for each try to send this message: a receiver that knows it may drop the repeat. */
  readonly id: string;
  /** The bridge's `public_host`. */
  readonly bridge: string;
  readonly made: Timestamp;
  /** Made by `bridge alerts test`. */
  readonly test: boolean;
  readonly alerts: readonly (Pick<Alert, 'id' | 'kind' | 'subject' | 'started' | 'ended' | 'summary' | 'action'> & {
    readonly event: NoticeEvent;
  })[];
  /** How many further alerts did not fit: `bridge alerts list` shows them. */
  readonly more: number;
}
