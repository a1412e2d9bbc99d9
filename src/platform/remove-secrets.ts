/**
 * Removes known secrets from texts of other programs, which may repeat what they were sent in another spelling.
 *
 * Example: the secret is `s3c/ret"`. Removed are `s3c/ret"`, `s3c%2Fret%22` and `s3c%2fret%22` of an address,
 * `s3c/ret\"` and `s3c\/ret\"` of JSON, `s3c/ret&quot;` of a page, `7333632f72657422` in hexadecimal, the whole of
 * `dXNlcjpzM2MvcmV0Ig==`, which is `user:s3c/ret"` in Base64, and the beginning of a longer secret at the end of a text that was cut there.
 */
import { censor } from './secret-names.ts';

/** Shorter secrets are not removed, as they would be found inside plain words. */
const charactersMin = 4;
/** The beginning of a secret at the end of a text is removed from this length on. */
const cutCharactersMin = 8;

/** Returns a function that replaces each of these secrets, in any of these spellings. Empty ones count as none. */
export function createSecretRemover(secrets: readonly string[]): (text: string) => string {
  const known = [...new Set(secrets.flatMap((secret) => [secret, ...linesOf(secret)]))]
    .filter(({ length }) => length >= charactersMin)
    // Longest first, since one secret may be the beginning of another.
    .sort((a, b) => b.length - a.length);
  if (known.length === 0) return (text) => text;
  const spelled = [...new Set(known.flatMap(spellingsOf))].sort((a, b) => b.length - a.length);
  const encoded = known.flatMap(encodingsOf);
  return (text) => {
    let removed = text;
    for (const form of spelled) removed = removed.replaceAll(form, censor);
    for (const form of encoded) removed = withoutEncoded(removed, form);
    return withoutCut(removed, known);
  };
}

/** The lines of a key in PEM: an error may show one of them. */
function linesOf(secret: string): string[] {
  const lines = secret.split(/\r?\n/);
  return lines.length === 1 ? [] : lines.filter((line) => line.length >= 16 && !line.startsWith('-----'));
}

/** The secret as it is, as addresses and forms write it, as JSON does, in JSON within JSON, and as a page does. */
function spellingsOf(secret: string): string[] {
  const text = secret.toWellFormed();
  const component = encodeURIComponent(text);
  const strict = component.replaceAll(/[!'()*~]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
  const addresses = [component, encodeURI(text), strict, new URLSearchParams([['', text]]).toString().slice(1)].flatMap(
    (form) => [form, form.replaceAll(/%[0-9A-F]{2}/g, (octet) => octet.toLowerCase()), encodeURIComponent(form)],
  );
  const json = inJson(text);
  const ascii = json.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const inJsons = [json, ascii].flatMap((form) => [form, form.replaceAll('/', '\\/'), inJson(form)]);
  const page = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const pages = [page, page.replaceAll('>', '&gt;')].flatMap((inPage) =>
    [inPage, inPage.replaceAll('"', '&quot;'), inPage.replaceAll('"', '&#34;')].flatMap((form) =>
      ["'", '&#39;', '&#x27;', '&apos;'].map((mark) => form.replaceAll("'", mark)),
    ),
  );
  return [secret, ...addresses, ...inJsons, ...pages];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** What always stands for the secret: in hexadecimal, and in Base64 after 0, 1 or 2 other bytes, as a name before it. */
function encodingsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const hex = bytes.toString('hex');
  const base64 = [0, 1, 2].flatMap((offset) =>
    (['base64', 'base64url'] as const).map((form) =>
      Buffer.concat([Buffer.alloc(offset), bytes])
        .toString(form)
        .slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6)),
    ),
  );
  return [...new Set([hex, hex.toUpperCase(), ...base64])].filter(({ length }) => length >= charactersMin);
}

const encodedCharacter = /[A-Za-z0-9+/_=-]/;

/** Removes the whole run in which the form stands: what is around it may be the rest of the login. */
function withoutEncoded(text: string, form: string): string {
  let from = text.indexOf(form);
  if (from < 0) return text;
  let kept = '';
  let end = 0;
  while (from >= 0) {
    let start = from;
    while (start > end && encodedCharacter.test(text[start - 1] ?? '')) start -= 1;
    kept += text.slice(end, start) + censor;
    end = from + form.length;
    while (end < text.length && encodedCharacter.test(text[end] ?? '')) end += 1;
    from = text.indexOf(form, end);
  }
  return kept + text.slice(end);
}

/** A text that another program has cut may end within a secret. */
function withoutCut(text: string, secrets: readonly string[]): string {
  const [dots = ''] = /\s?(?:\.{3}|…)$/.exec(text) ?? [];
  const body = text.slice(0, text.length - dots.length);
  for (const secret of secrets)
    for (let length = Math.min(secret.length - 1, body.length); length >= cutCharactersMin; length -= 1)
      if (body.endsWith(secret.slice(0, length))) return body.slice(0, -length) + censor + dots;
  return text;
}
