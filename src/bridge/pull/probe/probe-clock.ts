/** How far the source's clock differs from ours, and whether the lateness bound covers that. */
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { ProbedPage, Report } from './probe-reader.ts';

/** A source's `Date` counts whole seconds, and was written at any time between the request and the answer. */
const clockPrecisionMs = 2_000;

/** Reports how far the source's clock is from ours. */
export function probeClock(first: ProbedPage, source: Pick<SourceSettings, 'lateness_seconds'>, report: Report): void {
  if (first.sourceMs === undefined) {
    report('clock', 'ok', 'the answers have no Date: the clock of the source is taken to agree with ours');
    return;
  }
  // `sourceMs` is a time that the source's clock had passed: the `Date` less the round trip and a second.
  const dateMs = first.sourceMs + (first.answeredMs - first.askedMs) + 1_000;
  const aheadMs = dateMs - (first.askedMs + first.answeredMs) / 2;
  const differsMs = Math.max(0, Math.abs(aheadMs) - clockPrecisionMs);
  const latenessMs = source.lateness_seconds * 1000;
  const ok = first.commitOrdered || differsMs <= latenessMs;
  const words = `${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs >= 0 ? 'ahead of' : 'behind'} ours`;
  report(
    'clock',
    ok ? 'ok' : 'fail',
    ok
      ? differsMs === 0
        ? "the source's clock and ours agree"
        : `the source's clock is ${words}`
      : `the source's clock is ${words}, which is more than lateness_seconds (${source.lateness_seconds}): set the ` +
          `clocks right, or lateness_seconds to ${Math.ceil(differsMs / 1000) + source.lateness_seconds}`,
  );
}
