/**
 * What a misbehaving source does to a version when it is written: its stamp, how much later it is committed, and what it
 * looks like. Pure: the same random numbers make the same version.
 */
import type { FeedQuirks } from './feed-quirks.ts';

/** 0 <= x < 1. */
export type Fraction = () => number;

/** The stamp of a record without `modified`: it comes before all others. */
export const undated = Number.NEGATIVE_INFINITY;

export interface HostileVersion {
  readonly id: string;
  /** `undated`: the record is shown without `modified`. */
  readonly stampMicros: number;
  readonly committedMicros: number;
  /** The record as JSON text, an object without `modified`; null: the record is no longer shown. */
  readonly json: string | null;
}

/** A row of an answer before it is divided into pages; without a version: a row that is hidden after paging. */
export interface Row {
  readonly id: string;
  /** The stamp as it is shown. */
  readonly at: number;
  /** The place in an order that has nothing to do with stamps. */
  readonly rank: number;
  readonly version: HostileVersion | undefined;
}

const second = 1_000_000;

export interface Moment {
  readonly nowMicros: number;
  readonly startMicros: number;
}

export const hasChanged = ({ changesAfterMs }: FeedQuirks, { nowMicros, startMicros }: Moment): boolean =>
  nowMicros >= startMicros + changesAfterMs * 1_000;

/** The clock that the source stamps with. `Date` adds `dateSkewMs` to it. */
export function sourceClock(quirks: FeedQuirks, moment: Moment): number {
  const jumpedMs = quirks.jumpMs !== 0 && hasChanged(quirks, moment) ? quirks.jumpMs : 0;
  return moment.nowMicros + (quirks.skewMs + jumpedMs) * 1_000;
}

/**
 * The stamp of a transaction, in microseconds. `held` are the stamps that its records have now. A record's stamp does
 * not go back, unless it was in the future and the source corrects it.
 */
export function stampOf(quirks: FeedQuirks, moment: Moment, held: readonly number[], random: Fraction): number {
  if (
    quirks.undated > 0 &&
    moment.nowMicros < moment.startMicros &&
    (quirks.undated === 1 || random() < quirks.undated)
  )
    return undated;
  const clock = sourceClock(quirks, moment);
  const [only] = held;
  const staysFor = quirks.stampStaysMs * 1_000;
  if (staysFor > 0 && held.length === 1 && only !== undefined && only >= clock - staysFor) return only;
  const groupMicros = quirks.equalStampsMs * 1_000;
  if (groupMicros > 0)
    return Math.max(Math.floor(clock / groupMicros) * groupMicros, ...held.map((stamp) => stamp + 1));
  const isAhead = held.some((stamp) => stamp > clock);
  const aheadMs = !isAhead && random() < quirks.futureDated ? (0.7 + 0.3 * random()) * quirks.futureMs : 0;
  const least = isAhead && quirks.goesBack ? held.filter((stamp) => stamp <= clock) : held;
  return Math.max(clock + Math.round(aheadMs * 1_000), ...least.map((stamp) => stamp + 1));
}

/** How much later than its stamp a version is committed: half of them at once, a quarter as late as possible. */
export function latenessOf({ lateMs }: FeedQuirks, random: Fraction): number {
  const some = lateMs * random();
  return [0, 0, lateMs, some][Math.floor(random() * 4)] ?? 0;
}

/** The stamp as the feed shows and compares it. */
export function roundedStamp({ stamps }: FeedQuirks, micros: number): number {
  if (micros === undated) return undated;
  switch (stamps) {
    case 'micros':
      return micros;
    case 'millis':
      return Math.floor(micros / 1_000) * 1_000;
    case 'seconds':
      return Math.floor(micros / second) * second;
    case 'rounded':
      return Math.round(micros / second) * second;
  }
}

/** Members whose form changes, or that go away, when the source changes. */
const changing = ['name', 'lot_name', 'value'];

/** The JSON text of a record, as a version that is committed at this moment shows it. */
export function changedForm(quirks: FeedQuirks, moment: Moment, json: string): string {
  const { newFields, newValues, lostFields, upperCaseIds } = quirks;
  const later = (newFields || newValues || lostFields) && hasChanged(quirks, moment);
  if (!later && !upperCaseIds) return json;
  const record = JSON.parse(json) as Record<string, unknown>;
  if (upperCaseIds && typeof record['id'] === 'string') record['id'] = record['id'].toUpperCase();
  if (!later) return JSON.stringify(record);
  for (const member of changing)
    if (member in record) {
      if (newValues) record[member] = { en: record[member] };
      if (lostFields) delete record[member];
    }
  if (newFields) record['x_review'] = { state: 'PENDING', score: '0.70' };
  return JSON.stringify(record);
}

/** A number that looks random, and is always the same for this text (FNV-1a). */
export function textHash(text: string): number {
  let value = 0x81_1c_9d_c5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01_00_01_93);
  return value >>> 0;
}
