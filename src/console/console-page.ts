/**
 * The console: one page that shows what the bridge is doing, and the same as JSON. It asks for no password, as it
 * changes nothing and shows no secret. The page is plain HTML that reloads itself, so it needs nothing that could be out of date.
 */
import { type BridgeStatus, readStatus } from '#bridge/status.ts';
import type { Database } from '#platform/database/database.ts';
import type { Application } from '#platform/http/application.ts';
import { style } from './style.ts';

const reloadSeconds = 2;

/** Mounts `/` and `/status.json`. */
export function mountConsole({ express }: Application, { database }: { database: Database }): void {
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    response.json(await readStatus(database));
  });
  express.get('/', async (_request, response) => {
    response.locals.route = '/';
    response.setHeader('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
    response.setHeader('Cache-Control', 'no-store');
    response.type('html').send(renderPage(await readStatus(database)));
  });
}

/** Renders the page; every text that came from outside is escaped. */
export function renderPage({ feeds, flows, recent }: BridgeStatus): string {
  const waiting = sumOf(feeds.map((feed) => feed.waiting));
  const due = sumOf(flows.map((flow) => flow.due));
  const dead = sumOf(flows.map((flow) => flow.deadLetters));
  const troubled = dead > 0 || feeds.some((feed) => feed.lastError) || flows.some((flow) => flow.pausedReason);
  const [state, headline] = troubled
    ? ['bad', 'Needs a look']
    : waiting + due > 0
      ? ['busy', 'Working']
      : ['good', 'In step'];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="${reloadSeconds}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${headline} – sourcing-bridge</title>
<style>${style}</style></head><body>
<header><h1>sourcing-bridge</h1><strong class="${state}">${headline}</strong></header>
<dl>${figure('Notifications waiting', waiting)}${figure('Documents in step', sumOf(flows.map(inStep)))}${figure(
    'Still to push',
    due,
  )}${figure('Dead letters', dead, dead > 0)}</dl>
${section(
  'Feeds',
  ['Source', 'Feed', 'Read up to', 'Last read', 'Waiting', 'Trouble'],
  feeds.map((feed) => [
    feed.source,
    feed.feed,
    time(feed.watermark),
    time(feed.lastPull),
    feed.waiting,
    trouble(feed.lastError),
  ]),
)}
${section(
  'Flows',
  ['Flow', 'Documents', 'Still to push', 'Dead letters', 'Trouble'],
  flows.map((flow) => [flow.flow, flow.documents, flow.due, flow.deadLetters, trouble(flow.pausedReason)]),
)}
${section(
  'Latest documents',
  ['Flow', 'Document', 'Delivered', 'In the ERP as', 'Trouble'],
  recent.map((one) => [one.flow, breakable(one.key), time(one.delivered), one.reference, trouble(one.lastError)]),
)}
<footer>Times are UTC. The page reloads every ${reloadSeconds} seconds. Also: <a href="/status.json">status.json</a>,
<a href="/metrics">metrics</a>, <a href="/readyz">readiness</a>.</footer>
</body></html>`;
}

/** HTML that is safe already; any other cell is escaped. */
interface Html {
  readonly html: string;
}
type Cell = string | number | null | Html;

function inStep({ documents, due, deadLetters }: BridgeStatus['flows'][number]): number {
  return documents - due - deadLetters;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0);
}

function figure(name: string, value: number, bad = false): string {
  return `<div><dt>${name}</dt><dd${bad ? ' class="bad"' : ''}>${value}</dd></div>`;
}

function section(title: string, head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return `<h2>${title}</h2><p class="none">none yet</p>`;
  const heads = head.map((name, column) => `<th${classOf(rows[0]?.[column])}>${name}</th>`).join('');
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td${classOf(cell)}>${textOf(cell)}</td>`).join('')}</tr>`);
  return `<h2>${title}</h2>
<div class="scroll"><table><thead><tr>${heads}</tr></thead><tbody>${body.join('\n')}</tbody></table></div>`;
}

function classOf(cell: Cell | undefined): string {
  return typeof cell === 'number' ? ' class="number"' : '';
}

function textOf(cell: Cell): string {
  if (typeof cell === 'object' && cell !== null) return cell.html;
  return escapeHtml(String(cell ?? ''));
}

/** `2030-01-02 03:04:05`; the rest is shown when one points at it. */
function time(timestamp: string | null): Cell {
  if (timestamp === null) return { html: '<span class="none">never</span>' };
  const short = escapeHtml(timestamp.slice(0, 19).replace('T', ' '));
  return { html: `<time title="${escapeHtml(timestamp)}">${short}</time>` };
}

/** Two UUIDs in one line would push everything else off the screen. */
function breakable(key: string): Cell {
  return { html: escapeHtml(key).replaceAll('/', '/<wbr>') };
}

function trouble(text: string | null): Cell {
  return text === null ? null : { html: `<span class="trouble">${escapeHtml(text)}</span>` };
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
