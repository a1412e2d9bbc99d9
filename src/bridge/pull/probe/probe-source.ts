/**
 * Finds out how a source answers: its paging, whether it keeps a declared order, its bounds and its clock. One file of this
 * folder asks one question. `bridge doctor` shows the results, and the pull reads with fewer requests by
 * what is stored of them: the related objects, the granularity and the page size. A feed that cannot be read safely under the present settings fails the check, with a text that says what to do.
 * No record is stored, and the watermark is not touched.
 */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { learnProfile } from '../feed/checkpoint-store.ts';
import type { SourceProfile } from '../feed/source-profile.ts';
import { provenBy } from '../range/finer-granularity.ts';
import { defaultGranularityMicros } from '../range/range-types.ts';
import { probeBounds } from './probe-bounds.ts';
import { probeClock } from './probe-clock.ts';
import { probeIncludes } from './probe-includes.ts';
import { probeDeclaredOrder } from './probe-order.ts';
import { probeLastPage, probePageSize, readFullPage } from './probe-page-size.ts';
import { probePages, probePaging, samplePageSize } from './probe-pages.ts';
import { createProbeReader, type ProbeReader, type ProbeResult, type Report } from './probe-reader.ts';

export type { ProbeResult } from './probe-reader.ts';

interface ProbeDeps {
  client: Pick<SourceClient, 'readFeed'>;
  source: SourceSettings;
  feed: FeedName;
  clock: Clock;
  database: Database;
}

/** So many stamps are tried, to find the one that proves the finest granularity. */
const stampsTried = 3;

/**
 * Probes the feed, returns what was found as checks, and stores what the pull needs of it in the profile of the feed's
 * checkpoint, if there is one. A service that does not answer is a failed check, not an error; rejects only when `signal` is aborted or the
 * database is away.
 */
export async function probeSource(deps: ProbeDeps, signal: AbortSignal): Promise<ProbeResult[]> {
  const { source, feed, database } = deps;
  const results: ProbeResult[] = [];
  const report: Report = (name, verdict, message) =>
    results.push({
      name: `${feed}: ${name}`,
      ok: verdict !== 'fail',
      ...(verdict === 'note' ? { note: true } : {}),
      message,
    });
  try {
    const profile = await probe(deps, createProbeReader(deps, signal), report);
    await learnProfile(database, { source: source.name, feed }, profile);
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    report('answers', 'fail', `${error.publicMessage} ${adviceFor(error)}`);
  }
  return results;
}

function adviceFor({ code }: AppError): string {
  if (code === 'unauthorized')
    return 'The service does not take the API key (unknown, expired or revoked): see api_key of the source.';
  if (code === 'forbidden') return 'The API key may not read this feed: it needs the scope feeds.';
  if (code === 'not-found') return 'The service has no such feed: see base_url (without /api) and feeds of the source.';
  return 'Nothing was found out about the feed; try again when the service answers.';
}

async function probe(
  { source, feed }: ProbeDeps,
  reader: ProbeReader,
  report: Report,
): Promise<Pick<SourceProfile, 'includes' | 'granularityMicros' | 'pageSize'>> {
  const first = await reader.window({ pageSize: samplePageSize });
  report(
    'answers',
    'ok',
    first.commitOrdered ? 'it declares the order of its commits' : 'it does not declare its order',
  );
  const includes = await probeIncludes(reader, { source, feed }, report);
  probeClock(first, source, report);
  const followed = await probePages(reader, first);
  const full = await readFullPage(reader, source.page_size, report);
  // The first pages may be empty although more follow.
  const shown = [...followed.pages, full].find(({ times }) => times.some((time) => time !== withoutTime));
  const stamps = (shown?.times ?? []).filter((time) => time !== withoutTime).slice(0, stampsTried);
  // The stamp that can prove the finest granularity; of several the last one.
  const stamp = stamps.toSorted((a, b) => provenBy(b) - provenBy(a)).at(-1);
  if (stamp === undefined) {
    report(
      'bounds',
      'ok',
      `the feed ${feed} shows no record with a time yet, so its bounds cannot be probed; check again later`,
    );
    return { includes };
  }
  probePaging(followed, report);
  probeDeclaredOrder(followed, report);
  const pageSize = probePageSize(full, report);
  await probeLastPage(reader, full, report);
  const accepted = { ...source, page_size: full.requested };
  const granularityMicros =
    (await probeBounds(reader, { source: accepted, stamp, stamps }, report)) ?? defaultGranularityMicros;
  return { includes, granularityMicros, ...(pageSize === undefined ? {} : { pageSize }) };
}
