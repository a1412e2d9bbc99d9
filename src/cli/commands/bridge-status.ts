/**
 * `bridge status`: what every feed and flow is doing, and how far behind it is. Exit code 1 when something needs an
 * operator, or is further behind than `--max`.
 */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import { readProcesses } from '#bridge/ledger/leases/liveness.ts';
import { lossText } from '#bridge/operate/status/flow-lag.ts';
import { type BridgeStatus, readStatus } from '#bridge/operate/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import { commandLine } from '#platform/own-package.ts';
import { type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { auditState, behindText, underWay, warningsOf, whysOf } from '../feed-words.ts';
import { lagText, print, shortTime, tableOf } from '../output.ts';

export interface StatusOptions extends BridgeCommandOptions {
  /** Seconds. */
  max?: number;
}

export function runStatus(options: StatusOptions): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock }) => {
      requireSource(settings);
      const status = await readStatus(database, { settings, now: timestampNow(clock) });
      const urlOf = createObjectUrls(settings.flows);
      const delivered = await Promise.all(
        status.delivered.map(async (each) => ({ ...each, url: (await urlOf(each.flow, each.reference)) ?? null })),
      );
      const processes = await readProcesses(database);
      const noProcess = processes.length === 0 ? `${noProcessText}\n\n` : '';
      print(options, { ...status, processes, delivered }, () => noProcess + textOf(status));
      // Between two calls of `bridge run` no process runs, and nothing is late.
      const isLeft = processes.length === 0 && status.feeds.some(({ lag }) => !lag.inStep);
      return status.conditions.length > 0 || isLeft || isBeyond(status, options.max) ? 1 : 0;
    },
    { withoutSecrets: true },
  );
}

/** Whether a feed, flow or intake is further behind than `max` seconds; one that has never been read always is. */
function isBeyond({ feeds, flows, intakes }: BridgeStatus, max: number | undefined): boolean {
  if (max === undefined) return false;
  return [...feeds, ...flows, ...intakes].some(({ lag }) => (lag.seconds ?? Number.POSITIVE_INFINITY) > max);
}

const noProcessText =
  'No process of the bridge runs: until one is started, nothing is read or delivered ' +
  `(${commandLine} bridge; or ${commandLine} bridge run, by a scheduler).`;

const conditionsShown = 100;

/** What is still to be done after commits were lost. */
function lossLines({ lostCommits }: BridgeStatus): string[] {
  if (lostCommits === null) return [];
  const { since, flows, unreadIntakes } = lostCommits;
  const backup = since === null ? '' : ` from the backup of ${shortTime(since)}`;
  return [
    `Note: ${lossText(lostCommits)}${backup}. This ends by itself:`,
    ...flows.map(({ flow, isSourceRead, documents, toLookUp }) =>
      isSourceRead
        ? `  ${flow}: looked up in the ERP before anything of it is written: ${documents - toLookUp} of ${documents} documents`
        : `  ${flow} sends nothing: its source is read again`,
    ),
    ...(unreadIntakes.length > 0
      ? [`  to read their ERPs again, submitting nothing until then: ${unreadIntakes.join(', ')}`]
      : []),
    '',
  ];
}

function textOf(status: BridgeStatus): string {
  const { feeds, flows, intakes, backfills, audits, comparisons, deadLetters } = status;
  const whys = whysOf(feeds);
  const parts = [
    ...lossLines(status),
    'Feeds',
    tableOf(
      ['source', 'feed', 'behind by', 'read up to', 'last read', 'waiting', 'late arrivals', 'state'],
      feeds.map((feed, index) => [
        feed.source,
        feed.feed,
        behindText(feed.lag),
        shortTime(feed.watermark),
        shortTime(feed.lastPull),
        feed.waiting,
        feed.lateArrivals,
        [whys[index], ...warningsOf(feed)].join('; '),
      ]),
      'No feed has been read yet: start the bridge, or use `bridge run`.',
    ),
    '\nFlows',
    tableOf(
      ['flow', 'behind by', 'to deliver', 'dead letters', 'state'],
      flows.map((flow) => [flow.flow, lagText(flow.lag.seconds), flow.due, flow.deadLetters, flow.lag.why]),
      'No flow is known yet: start the bridge, or use `bridge run`.',
    ),
  ];
  if (intakes.length > 0)
    parts.push(
      '\nIntakes',
      tableOf(
        ['intake', 'behind by', 'to send', 'submitted', 'dead letters', 'state'],
        intakes.map((intake) => [
          intake.intake,
          lagText(intake.lag.seconds),
          intake.backlog.suppliers,
          intake.inSubmissions,
          intake.deadLetters,
          intake.lag.why,
        ]),
      ),
    );
  const open = backfills.filter(({ finished, cancelled }) => finished === null && cancelled === null);
  if (open.length > 0)
    parts.push(
      '\nBackfills',
      tableOf(
        ['number', 'source', 'feed', 'from', 'to', 'read up to', 'records', 'state'],
        open.map(({ id, source, feed, from, to, position, records, progress, lastError }) => [
          id,
          source,
          feed,
          shortTime(from),
          shortTime(to),
          shortTime(position),
          records,
          lastError === null ? underWay(progress) : `tried again: ${lastError}`,
        ]),
      ),
    );
  if (audits.length > 0)
    parts.push(
      '\nAudits, the last of each feed',
      tableOf(
        ['source', 'feed', 'of', 'from', 'to', 'read up to', 'records', 'late arrivals', 'state'],
        audits.map((audit) => [
          audit.source,
          audit.feed,
          auditedPart(audit.kind),
          shortTime(audit.from),
          shortTime(audit.to),
          shortTime(audit.position),
          audit.records,
          audit.lateArrivals,
          auditState(audit),
        ]),
      ),
    );
  if (comparisons.length > 0)
    parts.push(
      '\nComparisons with the ERPs, the latest',
      tableOf(
        ['flow', 'every', 'ended', 'comparison', 'documents', 'as delivered', 'differences', 'state'],
        comparisons.map(({ flow, everyHours, ended, run, documents, asDelivered, differing, open, lastError }) => [
          flow,
          everyHours === 0 ? null : `${everyHours} h`,
          shortTime(ended),
          run,
          documents,
          asDelivered,
          differing,
          lastError ?? (open === null ? null : `one is under way since ${shortTime(open)}`),
        ]),
      ),
    );
  if (deadLetters.length > 0)
    parts.push(
      '\nDead letters, the latest (all: bridge dead-letters)',
      tableOf(
        ['flow', 'kind', 'key', 'since', 'what the ERP said'],
        deadLetters
          .slice(0, 5)
          .map(({ flow, kind, key, deadSince, lastError }) => [flow, kind, key, shortTime(deadSince), lastError]),
      ),
    );
  if (status.conditions.length > 0)
    parts.push(
      '\nWhat needs a person',
      tableOf(
        ['kind', 'about', 'since', 'what', 'what to do'],
        status.conditions
          .slice(0, conditionsShown)
          .map(({ kind, subject, since, summary, action }) => [kind, subject, shortTime(since), summary, action]),
      ),
      ...(status.conditions.length > conditionsShown
        ? [`${status.conditions.length - conditionsShown} more: --json shows all.`]
        : []),
    );
  return parts.join('\n');
}

function auditedPart(kind: string): string {
  if (kind === 'untimed') return 'records without a time';
  return kind === 'full' ? 'the whole feed' : 'a window';
}
