/**
 * The console: one page that shows what the bridge is doing, and the same data as JSON. It needs no password, because
 * it changes nothing and shows no secret. The page is plain HTML that reloads itself, without any script that could be
 * out of date.
 */

import { intakeNeedsLook } from '#bridge/intake/intake-status.ts';
import type { BridgeSettings } from '#bridge/settings.ts';
import { type BridgeStatus, isChannelFailing, needsLook, readStatus } from '#bridge/status/status.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Application } from '#platform/http/application.ts';
import { cacheStatus } from './cached-status.ts';
import { durationOf } from './duration.ts';
import { style } from './style.ts';

const reloadSeconds = 2;

/** Mounts `/` and `/status.json`. */
export function mountConsole(
  { express }: Application,
  { settings, database, clock }: { settings: BridgeSettings; database: Database; clock: Clock },
): void {
  const status = cacheStatus(() => readStatus(database, { settings, now: timestampNow(clock) }), clock);
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    response.json(await status());
  });
  express.get('/', async (_request, response) => {
    response.locals.route = '/';
    response.setHeader('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
    response.setHeader('Cache-Control', 'no-store');
    response.type('html').send(renderPage(await status()));
  });
}

/** Renders the page; every text from outside is escaped. */
export function renderPage(status: BridgeStatus): string {
  const { feeds, flows } = status;
  const { state, headline } = headlineOf(status);
  const dead = sumOf(flows.map((flow) => flow.deadLetters));
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="${reloadSeconds}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${headline} – sourcing-bridge</title>
<style>${style}</style></head><body>
<header><h1>sourcing-bridge</h1><strong class="${state}">${headline}</strong></header>
<dl>${figure('Feeds behind by', lagText(largestOf(feeds.map(({ lag }) => lag.seconds))))}${figure(
    'ERPs behind by',
    lagText(largestOf(flows.map(({ lag }) => lag.seconds))),
  )}${figure('Notifications waiting', sumOf(feeds.map((feed) => feed.waiting)))}${figure(
    'Still to deliver',
    sumOf(flows.map((flow) => flow.due)),
  )}${figure('Dead letters', dead, dead > 0)}</dl>
${alertsSection(status)}
${flowsSection(status)}
${intakesSection(status)}
${feedsSection(status)}
${backfillsSection(status)}
${quotasSection(status)}
${deadLettersSection(status)}
${waitingSection(status)}
${deliveredSection(status)}
<footer>Times are UTC. The page reloads every ${reloadSeconds} seconds. Also: <a href="/status.json">status.json</a>,
<a href="/metrics">metrics</a>, <a href="/readyz">readiness</a>.</footer>
</body></html>`;
}

function headlineOf(status: BridgeStatus): { state: 'bad' | 'busy' | 'good'; headline: string } {
  if (needsLook(status)) return { state: 'bad', headline: 'Needs a look' };
  const working = [...status.feeds, ...status.flows, ...status.intakes].some(({ lag }) => !lag.inStep);
  return working ? { state: 'busy', headline: 'Working' } : { state: 'good', headline: 'In step' };
}

function alertsSection({ alerts, alertChannels }: BridgeStatus): string {
  const failing = alertChannels
    .filter(isChannelFailing)
    .map(({ channel, lastError }) => [
      '',
      `channel ${channel}`,
      '',
      sentence(lastError ?? 'messages were given up', true),
    ]);
  if (alerts.length + failing.length === 0) return '';
  return section(
    'Alerts',
    ['Kind', 'About', 'Since', 'What'],
    [
      ...alerts.map(({ kind, subject, started, summary }) => [kind, subject, time(started), sentence(summary, true)]),
      ...failing,
    ],
  );
}

function flowsSection({ flows }: BridgeStatus): string {
  return section(
    'Flows',
    ['Flow', 'Behind by', 'Still to deliver', 'Dead letters', 'State'],
    flows.map((flow) => [
      flow.flow,
      lagText(flow.lag.seconds),
      flow.due,
      flow.deadLetters,
      sentence(
        flow.lag.why,
        flow.pausedReason !== null || flow.circuitUntil !== null || flow.deadLetters > 0 || flow.stuck > 0,
      ),
    ]),
  );
}

function intakesSection({ intakes }: BridgeStatus): string {
  if (intakes.length === 0) return '';
  return section(
    'Intakes',
    ['Intake', 'Behind by', 'Still to send', 'Dead letters', 'State'],
    intakes.map((intake) => [
      intake.intake,
      lagText(intake.lag.seconds),
      intake.backlog.suppliers + intake.inSubmissions,
      intake.deadLetters,
      sentence(intake.lag.why, intakeNeedsLook(intake)),
    ]),
  );
}

function feedsSection({ feeds }: BridgeStatus): string {
  return section(
    'Feeds',
    ['Source', 'Feed', 'Behind by', 'Read up to', 'Last read', 'Waiting', 'Late arrivals', 'State'],
    feeds.map((feed) => [
      feed.source,
      feed.feed,
      lagText(feed.lag.seconds),
      time(feed.watermark),
      time(feed.lastPull),
      feed.waiting,
      feed.lateArrivals,
      sentence([feed.lag.why, feed.warning].filter(Boolean).join('; '), feed.failures > 0 || feed.warning !== null),
    ]),
  );
}

function backfillsSection({ backfills }: BridgeStatus): string {
  if (backfills.length === 0) return '';
  return section(
    'Backfills',
    ['Number', 'Kind', 'Source', 'Feed', 'From', 'To', 'Read up to', 'Records', 'Changed', 'State'],
    backfills.map((one) => [
      `${one.id}`,
      one.kind,
      one.source,
      one.feed,
      time(one.from),
      time(one.to),
      time(one.position),
      one.records,
      one.changed,
      sentence(
        one.finished ? 'finished' : one.cancelled ? 'cancelled' : (one.lastError ?? 'under way'),
        !!one.lastError,
      ),
    ]),
  );
}

function quotasSection({ quotas }: BridgeStatus): string {
  if (quotas.length === 0) return '';
  return section(
    'Quotas',
    ['Source', 'Requests', 'Limit', 'Left', 'State'],
    quotas.map(({ source, bucket, window, left, pausedUntil }) => [
      source,
      bucket,
      window,
      left,
      sentence(
        pausedUntil === undefined ? '' : `the source refused requests: none is sent until ${pausedUntil.slice(0, 19)}Z`,
        pausedUntil !== undefined,
      ),
    ]),
  );
}

function deadLettersSection({ deadLetters }: BridgeStatus): string {
  if (deadLetters.length === 0) return '';
  return section(
    'Dead letters, the latest',
    ['Flow', 'Kind', 'Document', 'Since', 'What the ERP said'],
    deadLetters.map((one) => [
      one.flow,
      one.kind,
      breakable(one.key),
      time(one.deadSince),
      sentence(one.lastError ?? '', true),
    ]),
  );
}

function waitingSection({ waiting }: BridgeStatus): string {
  if (waiting.length === 0) return '';
  return section(
    'Waiting the longest',
    ['Flow', 'Kind', 'Document', 'Waiting since', 'Attempts', 'Error'],
    waiting.map((one) => [
      one.flow,
      one.kind,
      breakable(one.key),
      time(one.waitingSince),
      one.attempts,
      sentence(one.lastError ?? '', one.lastError !== null),
    ]),
  );
}

function deliveredSection({ delivered }: BridgeStatus): string {
  return section(
    'Delivered, the latest',
    ['Flow', 'Kind', 'Document', 'Delivered', 'In the ERP as'],
    delivered.map((one) => [one.flow, one.kind, breakable(one.key), time(one.delivered), one.reference]),
  );
}

/** HTML that is escaped already; every other cell is escaped when it is rendered. */
interface Html {
  readonly html: string;
}
type Cell = string | number | null | Html;

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0);
}

/** The largest lag; not known when one of them is not known. */
function largestOf(lags: readonly (number | null)[]): number | null {
  return lags.includes(null) ? null : Math.max(0, ...lags.map(Number));
}

function lagText(seconds: number | null): string {
  return seconds === null ? 'not known' : durationOf(seconds);
}

function figure(name: string, value: number | string, bad = false): string {
  return `<div><dt>${name}</dt><dd${bad ? ' class="bad"' : ''}>${value}</dd></div>`;
}

/** On a narrow screen each row is a card, and each cell shows the name of its column. */
function section(title: string, head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return `<h2>${title}</h2><p class="none">none yet</p>`;
  const heads = head.map((name, column) => `<th${classOf(rows[0]?.[column])}>${name}</th>`).join('');
  const cells = (row: readonly Cell[]) =>
    row.map((cell, column) => `<td data-name="${head[column]}"${classOf(cell)}>${textOf(cell)}</td>`).join('');
  return `<h2>${title}</h2>
<div class="scroll"><table><thead><tr>${heads}</tr></thead><tbody>${rows
    .map((row) => `<tr>${cells(row)}</tr>`)
    .join('\n')}</tbody></table></div>`;
}

function classOf(cell: Cell | undefined): string {
  return typeof cell === 'number' ? ' class="number"' : '';
}

function textOf(cell: Cell): string {
  if (typeof cell === 'object' && cell !== null) return cell.html;
  return escapeHtml(String(cell ?? ''));
}

/** `2030-01-02 03:04:05`; the full time is shown when the pointer is over it. */
function time(timestamp: string | null): Cell {
  if (timestamp === null) return { html: '<span class="none">never</span>' };
  const short = escapeHtml(timestamp.slice(0, 19).replace('T', ' '));
  return { html: `<time title="${escapeHtml(timestamp)}">${short}</time>` };
}

/** A key that may break at its slashes: two UUIDs in one line would push the other columns off the screen. */
function breakable(key: string): Cell {
  return { html: `<span class="key">${escapeHtml(key).replaceAll('/', '/<wbr>')}</span>` };
}

function sentence(text: string, bad: boolean): Cell {
  return { html: `<span class="sentence${bad ? ' trouble' : ''}">${escapeHtml(text)}</span>` };
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
