/** The login page: plain HTML with one style sheet, no script, nothing from elsewhere. It works with any browser. */

import { commandLine } from '#platform/own-package.ts';
/** Where the style sheet is. */
export const loginStylePath = '/login/style.css';

export interface LoginPage {
  /** What went wrong, or what to know; in plain text. */
  readonly message?: string | undefined;
  /** The name that was typed. */
  readonly name?: string | undefined;
  /** Where to go after the login. */
  readonly next: string;
  readonly formToken: string;
  /** Whether there is a form for a password. */
  readonly passwords: boolean;
  /** The text of the button for the OpenID provider, where there is one. */
  readonly openIdLabel: string | undefined;
  /** Whether a link of the command line can log in. */
  readonly links: boolean;
}

export function renderLoginPage(page: LoginPage): string {
  const ways = [
    page.passwords ? passwordForm(page) : '',
    page.openIdLabel === undefined
      ? ''
      : `<p><a class="button" href="/login/openid?next=${encodeURIComponent(page.next)}">${escaped(page.openIdLabel)}</a></p>`,
    page.links
      ? `<section aria-labelledby="link"><h2 id="link">On this machine</h2>
<p>This command prints a link that logs you in once:</p>
<pre><code>${commandLine} console link</code></pre></section>`
      : '',
  ].filter(Boolean);
  return document(
    'Log in',
    `${page.message === undefined ? '' : `<p class="message" id="message" role="alert">${escaped(page.message)}</p>`}
${ways.join('\n')}`,
  );
}

/** A page that says one thing, with a way back to the login. */
export function renderNotice(title: string, text: string): string {
  return document(
    title,
    `<p class="message" role="alert">${escaped(text)}</p><p><a class="button" href="/login">Log in</a></p>`,
  );
}

function passwordForm({ name = '', next, formToken, message }: LoginPage): string {
  const described = message === undefined ? '' : ' aria-describedby="message"';
  return `<form method="post" action="/login">
<input type="hidden" name="form_token" value="${escaped(formToken)}">
<input type="hidden" name="next" value="${escaped(next)}">
<label for="name">Name</label>
<input id="name" name="name" value="${escaped(name)}" autocomplete="username" autocapitalize="none" spellcheck="false"
  maxlength="128" required${described}${name === '' ? ' autofocus' : ''}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="512"
  required${described}${name === '' ? '' : ' autofocus'}>
<button type="submit">Log in</button>
</form>`;
}

function document(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><title>${escaped(title)} – sourcing-bridge</title>
<link rel="stylesheet" href="${loginStylePath}"></head><body>
<main><p class="brand">sourcing-bridge</p><h1>${escaped(title)}</h1>
${body}
</main></body></html>`;
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** Contrast of every text is at least 4.5 to 1, in light and dark. */
export const loginStyle = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --ground: light-dark(#f3f5f8, #14171c); --card: light-dark(#fff, #1d2128); --text: light-dark(#1a1f27, #e8ebf0);
  --soft: light-dark(#555e6c, #a7b0be); --line: light-dark(#8a93a1, #6b7482); --accent: light-dark(#1f5fbf, #8ab4f8);
  --on-accent: light-dark(#fff, #10151d); --bad: light-dark(#b3261e, #f2938c); }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground);
  color: var(--text); }
main { width: 100%; max-width: 24rem; padding: 2rem; background: var(--card); border-radius: .75rem;
  box-shadow: 0 1px 3px #0003, 0 8px 32px #0001; }
.brand { margin: 0; color: var(--soft); font-size: .9rem; letter-spacing: .02em; }
h1 { margin: 0 0 1.25rem; font-size: 1.6rem; line-height: 1.2; }
h2 { margin: 0 0 .25rem; font-size: 1rem; }
form { display: grid; gap: .35rem; }
label { font-weight: 600; font-size: .9rem; }
input { font: inherit; color: inherit; background: var(--card); padding: .55rem .7rem; border: 1px solid var(--line);
  border-radius: .4rem; margin-bottom: .6rem; width: 100%; }
button, .button { display: block; width: 100%; font: inherit; font-weight: 600; text-align: center; cursor: pointer;
  padding: .6rem 1rem; border: 1px solid var(--accent); border-radius: .4rem; text-decoration: none;
  background: var(--accent); color: var(--on-accent); }
form + p .button { background: transparent; color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
section { margin-top: 1.5rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
h1 + section { margin-top: 0; padding-top: 0; border-top: 0; }
section p { margin: 0 0 .5rem; color: var(--soft); }
pre { margin: 0; padding: .6rem .7rem; overflow-x: auto; border-radius: .4rem; background: var(--ground); }
code { font: .85rem ui-monospace, monospace; }
.message { margin: 0 0 1rem; padding: .6rem .8rem; border-left: 4px solid var(--bad); background: var(--ground);
  color: var(--bad); }
`;
