/** How long a cursor lives: whether an old `next` is still answered, and whether a few pages in a row are. */
import { AppError } from '#platform/errors.ts';
import type { Paging } from '../feed/paging.ts';
import type { FollowedPages } from './probe-pages.ts';
import type { ProbeReader, Report } from './probe-reader.ts';

const whatItMeans =
  'the first read goes on in windows of time, with more requests, and no record waits for it that is new';

/**
 * Asks for the second page once more, after all other requests. Numbers and offsets do not expire: there it sends
 * nothing.
 */
export async function probeCursor(
  reader: ProbeReader,
  { pages, refused }: FollowedPages,
  paging: Paging,
  report: Report,
): Promise<void> {
  const [first] = pages;
  const name = 'lifetime of cursors';
  if (first.next === undefined || paging === 'page number' || paging === 'offset') return;
  if (refused !== undefined) {
    report(name, 'note', `the page after ${pages.length} pages was refused (${refused.publicMessage}): ${whatItMeans}`);
    return;
  }
  const before = reader.samples.length;
  try {
    const { askedMs } = await reader.nextOf(first);
    const seconds = Math.floor((askedMs - first.answeredMs) / 1_000);
    report(name, 'ok', `at least ${seconds} s and ${before - 1} other requests: a first read follows the pages`);
  } catch (error) {
    if (!(error instanceof AppError) || error.recovery.do !== 'halt') throw error;
    report(
      name,
      'note',
      `less than ${before} requests: the second page was refused when it was asked for again (${error.publicMessage}): ` +
        whatItMeans,
    );
  }
}
