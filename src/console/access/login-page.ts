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
  /** Whether some accounts need a code besides. */
  readonly codes: boolean;
  /** The text of the button for the OpenID provider, where there is one. */
  readonly openId: boolean;
  /** Whether a link of the command line can log in. */
  readonly links: boolean;
}

export function renderLoginPage(page: LoginPage): string {
  const ways = [
    page.passwords ? passwordForm(page) : '',
    page.openId
      ? `<p><a class="button" href="/login/openid?next=${encodeURIComponent(page.next)}">Single sign-on</a></p>`
      : '',
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

function passwordForm({ name = '', next, formToken, message, codes }: LoginPage): string {
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
${codes ? codeField(described) : ''}<button type="submit">Log in</button>
</form>`;
}

/** For every account alike: the page does not tell which of them have a second factor. */
function codeField(described: string): string {
  return `<label for="code">Code of your app, if your account has one</label>
<input id="code" name="code" inputmode="numeric" autocomplete="one-time-code" maxlength="12"${described}>
`;
}

function document(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><title>${escaped(title)} – sourcing-bridge</title>
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${loginStylePath}"></head><body>
<main><p class="brand"><img src="/favicon.svg" alt="" width="22" height="22">sourcing-bridge</p><h1>${escaped(title)}</h1>
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

/** The look of the console. Contrast of every text is at least 4.5 to 1, in light and dark. */
export const loginStyle = `
:root { color-scheme: light dark; font: 14px/1.5 "Inter", "Segoe UI", system-ui, sans-serif;
  --ground: light-dark(#fbfbfa, #15181a); --card: light-dark(#fff, #1c2023); --sunk: light-dark(#f1f2f0, #101315);
  --text: light-dark(#1b2326, #e4e8e9); --soft: light-dark(#566166, #9aa6ab); --line: light-dark(#dfe2df, #2d3337);
  --edge: light-dark(#b9c0bd, #465056); --accent: light-dark(#0b5c70, #6cc3d6); --on-accent: light-dark(#fff, #0c1a1e);
  --bad: light-dark(#a3271c, #f09a90); --bad-sunk: light-dark(#fbeae8, #3a1c19); }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground);
  color: var(--text); }
main { width: 100%; max-width: 24rem; padding: 1.8rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; }
.brand { display: flex; align-items: center; gap: .55rem; margin: 0 0 1.2rem; font-weight: 640; }
h1 { margin: 0 0 1rem; font-size: 1.45rem; line-height: 1.25; font-weight: 650; letter-spacing: -.012em; }
h2 { margin: 0 0 .25rem; font-size: 1rem; font-weight: 620; }
form { display: grid; gap: .15rem; }
label { font-size: .82em; color: var(--soft); }
input { font: inherit; color: inherit; background: var(--card); padding: .32rem .6rem; min-height: 2.4rem;
  border: 1px solid var(--edge); border-radius: 6px; margin-bottom: .7rem; width: 100%; }
button, .button { display: block; width: 100%; font: inherit; font-weight: 550; text-align: center; cursor: pointer;
  padding: .45rem .85rem; min-height: 2.4rem; border: 1px solid var(--accent); border-radius: 6px; text-decoration: none;
  background: var(--accent); color: var(--on-accent); }
form + p .button { background: transparent; color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
section { margin-top: 1.4rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
h1 + section { margin-top: 0; padding-top: 0; border-top: 0; }
section p { margin: 0 0 .5rem; color: var(--soft); }
pre { margin: 0; padding: .6rem .7rem; overflow-x: auto; border-radius: 6px; background: var(--sunk); }
code { font: .86em ui-monospace, monospace; }
.message { margin: 0 0 1rem; padding: .4rem .7rem; border-radius: 6px; background: var(--bad-sunk); color: var(--bad); }
`;
