/**
 * What the doctor finds when it tries what a source must be able to do: how each feed answers its probes, and whether the
 * API key has the scopes that an intake needs.
 */
import { z } from 'zod';
import { probeSource } from '#bridge/pull/probe-source.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { type SourceSettings, takesJobs } from '#bridge/settings/settings.ts';
import { AnswerError } from '#client/read-answer.ts';
import type { FeedName } from '#contract/feed.ts';
import { errorText } from '#platform/errors.ts';
import type { BridgeCommand } from '../bridge-command.ts';
import { type DoctorFinding, fail, ok } from './finding.ts';

/** One line for each probe that failed; one in all when none did. Rejects when the command is stopped. */
export async function probeFeed(
  { clientOf, signal }: BridgeCommand,
  source: SourceSettings,
  feed: FeedName,
): Promise<DoctorFinding[]> {
  const results = await probeSource({ client: clientOf(source.name), source, feed }, signal);
  const failed = results.filter((result) => !result.ok);
  const name = `source ${source.name}: ${feed}`;
  const without = (probe: string) => probe.slice(probe.indexOf(': ') + 2);
  if (failed.length > 0)
    return failed.map((probe) =>
      fail(
        name,
        `${without(probe.name)}: ${probe.message}`,
        'Nothing of this feed is lost, but it is not read, or not all of it, until the source or its settings are corrected.',
      ),
    );
  return [ok(name, `${results.length} probes are as they should be`)];
}

/**
 * Whether the API key may read jobs, which a flow of the source takes; undefined where none does. No job has this id, so a
 * source that lets it be read answers 404.
 */
export async function findJobs(
  { clientOf, settings, signal }: BridgeCommand,
  { name }: SourceSettings,
): Promise<DoctorFinding | undefined> {
  if (!takesJobs(settings, name)) return undefined;
  const line = `source ${name}: jobs`;
  try {
    const path = '/api/jobs/00000000-0000-4000-8000-000000000000';
    await clientOf(name).call({ method: 'GET', path }, z.unknown(), signal);
  } catch (error) {
    if (!(error instanceof AnswerError && error.status === 404))
      return fail(
        line,
        errorText(error),
        'Until this works no document is made of a job. The API key needs the scope jobs.',
      );
  }
  return ok(line, 'the API key may read jobs');
}

/** Whether the source lets the intake look at what it writes: its API key needs scopes that reading feeds does not. */
export async function findIntakeSource(
  { clientOf, signal }: BridgeCommand,
  { name, source, stream }: IntakeSettings,
): Promise<DoctorFinding> {
  const line = `intake ${name}: source`;
  const [what, path] = stream === 'supplier' ? ['suppliers', '/api/manage/suppliers'] : ['jobs', '/api/jobs/'];
  try {
    // Some services have no smaller page.
    await clientOf(source).call({ method: 'GET', path: `${path}?page_size=10` }, z.unknown(), signal);
    return ok(line, `the source "${source}" shows its ${what}`);
  } catch (error) {
    // The API document leaves open what the list of jobs looks like.
    if (stream !== 'supplier' && error instanceof AnswerError && error.status === 404)
      return ok(line, `the source "${source}" has no list of jobs: whether a job was made may need a person to say`);
    const scopes = stream === 'supplier' ? 'manage' : 'jobs';
    return fail(
      line,
      errorText(error),
      `Until this works the intake sends nothing. The API key needs the scope ${scopes}.`,
    );
  }
}
