/**
 * The console: one page that shows what the bridge is doing, and the same as JSON. It is served on this machine only and
 * changes nothing. The page is plain HTML that reloads itself, so it needs nothing that could be out of date.
 */
import { type BridgeStatus, readStatus } from '#bridge/status.ts';
import type { Database } from '#platform/database/database.ts';
import type { Application } from '#platform/http/application.ts';

/** Mounts `/` and `/status.json`. */
export function mountConsole({ express }: Application, { database }: { database: Database }): void {
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    response.json(await readStatus(database));
  });
  express.get('/', async (_request, response) => {
    response.locals.route = '/';
    response.setHeader('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
    response.type('html').send(renderPage(await readStatus(database)));
  });
}

/** Renders the page; every text that came from outside is escaped. */
export function renderPage(status: BridgeStatus): string {
  const waiting = status.feeds.reduce((sum, { waiting: count }) => sum + count, 0);
  const due = status.flows.reduce((sum, flow) => sum + flow.due, 0);
  const dead = status.flows.reduce((sum, flow) => sum + flow.deadLetters, 0);
  const troubled =
    dead > 0 || status.feeds.some((feed) => feed.lastError) || status.flows.some((flow) => flow.pausedReason);
  const headline = troubled ? 'Needs a look' : waiting + due > 0 ? 'Working' : 'In step';
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${headline} – sourcing-bridge</title>
<style>${style}</style></head><body>
<header><h1>sourcing-bridge</h1><strong class="${troubled ? 'bad' : 'good'}">${headline}</strong></header>
<h2>Feeds</h2>
${table(
  ['Source', 'Feed', 'Read up to', 'Last read', 'Notifications waiting', 'Trouble'],
  status.feeds.map((feed) => [feed.source, feed.feed, feed.watermark, feed.lastPull, feed.waiting, feed.lastError]),
)}
<h2>Flows</h2>
${table(
  ['Flow', 'Documents', 'Still to push', 'Dead letters', 'Trouble'],
  status.flows.map((flow) => [flow.flow, flow.documents, flow.due, flow.deadLetters, flow.pausedReason]),
)}
<h2>Latest documents</h2>
${table(
  ['Flow', 'Document', 'Delivered', 'In the ERP as', 'Trouble'],
  status.recent.map((one) => [one.flow, one.key, one.delivered, one.reference, one.lastError]),
)}
<p>Times are UTC. The page reloads every 2 seconds. Also: <a href="/status.json">status.json</a>,
<a href="/metrics">metrics</a>, <a href="/readyz">readiness</a>.</p>
</body></html>`;
}

function table(head: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  if (rows.length === 0) return '<p class="none">none yet</p>';
  const cells = (row: readonly (string | number | null)[]) =>
    row.map((cell) => `<td${typeof cell === 'number' ? ' class="number"' : ''}>${escapeHtml(String(cell ?? ''))}</td>`);
  return `<div class="scroll"><table><thead><tr>${head.map((name) => `<th>${name}</th>`).join('')}</tr></thead><tbody>${rows
    .map((row) => `<tr>${cells(row).join('')}</tr>`)
    .join('')}</tbody></table></div>`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
header { display: flex; align-items: baseline; gap: 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
strong { padding: .1rem .7rem; border-radius: 1rem; color: #fff; }
.good { background: #1a7f4b; } .bad { background: #b3261e; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #8884; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; } .number { text-align: right; padding-right: 2rem; }
.none { opacity: .6; }`;
