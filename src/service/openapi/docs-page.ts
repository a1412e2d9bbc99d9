/** The page to read an OpenAPI document and to try its calls: Swagger UI, started by a script of ours. */
import type { ApiName } from './api-documents.ts';

export interface DocsPage {
  /** The way to the service's root, ending in a slash. */
  root: string;
  /** The document's path, from the root. */
  document: string;
  current: ApiName;
  assets: { style: string; bundle: string; start: string };
}

const pages: readonly { name: ApiName; path: string; title: string }[] = [
  { name: 'public', path: 'docs', title: 'Public API' },
  { name: 'desk', path: 'docs/desk', title: 'Desk' },
  { name: 'admin', path: 'docs/admin', title: 'Operation' },
];

export function renderDocsPage({ root, document, current, assets }: DocsPage): string {
  const links = pages.map(({ name, path, title }) =>
    name === current ? `<strong>${title}</strong>` : `<a href="${root}${path}">${title}</a>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sourcing Service API</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="${root}${assets.style}">
<style>body{margin:0}nav{display:flex;gap:1.5rem;padding:.75rem 1.25rem;font:15px sans-serif;background:#1b1b1b;color:#fff}nav a{color:#9cdcfe}</style>
</head><body>
<nav>${links.join('')}<a href="${root}${document.slice(1)}">${document.slice(1)}</a></nav>
<div id="ui" data-document="${root}${document.slice(1)}"></div><noscript>This page needs JavaScript.</noscript>
<script src="${root}${assets.bundle}"></script><script src="${root}${assets.start}"></script>
</body></html>`;
}

/**
 * A key that is entered is kept until the page is left, and nowhere else. No validator: it would send the document's
 * address to somebody else's server.
 */
export const startScript = `SwaggerUIBundle({
  url: document.getElementById('ui').dataset.document,
  dom_id: '#ui',
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  validatorUrl: null,
});
`;
