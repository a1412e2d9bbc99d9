/** How a flow and an audit stand, as the status has them. */
import type { Lag } from '#bridge/mirror/feed-lag.ts';
import type { RangeReading } from '#bridge/mirror/read-progress.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { FlowProgress } from './flow-lag.ts';

export interface FlowStatus extends FlowProgress {
  flow: string;
  source: string;
  /** `operator`, `auth`, `config` or `withdrawals`; null while the flow is not paused. */
  pausedKind: string | null;
  pausedAt: Timestamp | null;
  failuresInRow: number;
  /** Since when the first dead letter is one, and what the ERP said of the latest. */
  deadSince: Timestamp | null;
  deadWhy: string | null;
  /** How many waiting documents will hardly succeed by themselves: tried many times, or with unreadable answers. */
  stuck: number;
  lag: Lag;
}

/** A read of a feed's past: asked for by an operator, or an audit. */
export interface RangeReadStatus extends RangeReading {
  /** `range`: asked for by an operator; `audit`: an audit of a window; `full`: of the whole feed; `untimed`: of records without a time. */
  kind: string;
  source: string;
  feed: string;
  /** `37 %, about 4 min left`; empty where it has ended, or nothing is known yet. */
  progress: string;
  records: number;
  lastError: string | null;
}

/** The last audit of a feed, whether it has ended or not. */
export interface AuditStatus extends RangeReadStatus {
  lateArrivals: number;
  /** How often in a row it stopped without having come further; it is tried again. */
  failures: number;
  nextTry: Timestamp;
}
