/** Whether the service shows related objects when it is asked for them. */

import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { AppError } from '#platform/errors.ts';
import { keptIncludes } from '../feed/feed-reader.ts';
import { samplePageSize } from './probe-pages.ts';
import type { ProbeReader, Report } from './probe-reader.ts';

/** Returns the related objects to ask for; none where the service refuses to be asked. */
export async function probeIncludes(
  reader: ProbeReader,
  { source, feed }: { source: Pick<SourceSettings, 'includes'>; feed: FeedName },
  report: Report,
): Promise<readonly string[]> {
  const wanted = keptIncludes(feed);
  if (!source.includes || wanted.length === 0) return wanted;
  try {
    const { includes } = await reader.window({ pageSize: samplePageSize, include: wanted });
    const shown = wanted.filter((name) => includes[name] !== undefined);
    const missing = wanted.filter((name) => includes[name] === undefined);
    report(
      'includes',
      'ok',
      missing.length === 0 ? `shows ${shown.join(', ')}` : `does not show ${missing.join(', ')}`,
    );
    return wanted;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid') throw error;
    report('includes', 'ok', 'refused: pages are requested without include, and related objects are not read');
    return [];
  }
}
