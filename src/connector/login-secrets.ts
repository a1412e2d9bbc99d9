import { censor } from '#platform/log.ts';

/** A shorter piece would be found in the middle of plain words. */
const charactersMin = 4;

/**
 * A text without what was sent to log in. What a login gave (a token, a session's key) or made (`user:password` in
 * base64) is no setting, so that nobody else would know it for a secret.
 */
export function hideLogin(text: string, login: Readonly<Record<string, string>>): string {
  let hidden = text;
  const secrets = Object.values(login).flatMap(piecesOf);
  // One may be a piece of another.
  for (const secret of secrets.sort((a, b) => b.length - a.length))
    if (secret.length >= charactersMin) hidden = hidden.replaceAll(secret, censor);
  return hidden;
}

/** The whole value; without its scheme; the values of cookies; what stands in base64, as a whole and by its colons. */
function piecesOf(value: string): string[] {
  const [, credentials = value] = /^[\w-]+ +(.+)$/.exec(value) ?? [];
  const cookies = value.includes('=') ? value.split(/; */).map((cookie) => cookie.slice(cookie.indexOf('=') + 1)) : [];
  const decoded = Buffer.from(credentials, 'base64').toString('utf8');
  const isText = /^[\x20-\x7e\xa0-\uffff]+$/.test(decoded) && !decoded.includes('\ufffd');
  const inside = isText ? [decoded, ...decoded.split(':').slice(1)] : [];
  const pieces = [value, credentials, ...cookies, ...inside];
  return pieces.flatMap((piece) => [
    piece,
    encodeURIComponent(piece.toWellFormed()),
    JSON.stringify(piece).slice(1, -1),
  ]);
}
