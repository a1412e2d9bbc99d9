/** The page for reading an OpenAPI document and trying its calls: Swagger UI, started by our script. */
import { type ApiName, apiNames } from './api-names.ts';

/** Where each document and its page are, from the service's root. */
export const docsPaths: Readonly<Record<ApiName, { title: string; page: string; document: string }>> = {
  public: { title: 'Public API', page: 'docs', document: 'openapi.json' },
  desk: { title: 'Desk', page: 'docs/desk', document: 'openapi-desk.json' },
  admin: { title: 'Operation', page: 'docs/admin', document: 'openapi-admin.json' },
};

/** The same document in YAML: `openapi.yaml` beside `openapi.json`. */
export function yamlName(document: string): string {
  return document.replace(/json$/, 'yaml');
}

export interface DocsPage {
  /** The relative path to the service's root, ending in a slash. */
  root: string;
  current: ApiName;
  /** From the root; undefined where Swagger UI is not installed. Then the page shows the documents and `install`. */
  assets: { style: string; bundle: string; start: string } | undefined;
  /** The command that installs Swagger UI. */
  install: string;
}

export function renderDocsPage({ root, current, assets, install }: DocsPage): string {
  const { document } = docsPaths[current];
  const links = apiNames.map((name) => {
    const { title, page } = docsPaths[name];
    return name === current ? `<strong>${title}</strong>` : `<a href="${root}${page}">${title}</a>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sourcing Service API</title><link rel="icon" href="data:,">
${assets ? `<link rel="stylesheet" href="${root}${assets.style}">\n` : ''}<style>body{margin:0}nav{display:flex;gap:1.5rem;padding:.75rem 1.25rem;font:15px sans-serif;background:#1b1b1b;color:#fff}nav a{color:#9cdcfe}</style>
</head><body>
<nav>${links.join('')}<a href="${root}${document}">${document}</a><a href="${root}${yamlName(document)}">${yamlName(document)}</a></nav>
${assets ? swaggerUi(root, document, assets) : `<p style="padding:1rem">This page needs a package that is not installed: <code>${install}</code>. Then start the service again. The documents above are complete without it.</p>`}
</body></html>`;
}

function swaggerUi(root: string, document: string, { bundle, start }: { bundle: string; start: string }): string {
  return `<div id="ui" data-document="${root}${document}"></div><noscript>This page needs JavaScript.</noscript>
<script src="${root}${bundle}"></script><script src="${root}${start}"></script>`;
}

/**
 * An entered key is kept only until the page is left. The validator is off: it would send the document's address to
 * another company's server.
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
