import { createSecretRemover } from '#platform/remove-secrets.ts';

/**
 * Removes from a text what was sent to log in. A token or session key that a login returned, or `user:password` in
 * base64, is not a setting, so the bridge's own removal of secrets would not recognise it.
 */
export function hideLogin(text: string, login: Readonly<Record<string, string>>): string {
  return createSecretRemover(Object.values(login).flatMap(piecesOf))(text);
}

/**
 * The whole value; the value without its scheme; the values of cookies; the decoded base64, as a whole and split at its
 * colons.
 */
function piecesOf(value: string): string[] {
  const [, credentials = value] = /^[\w-]+ +(\S.*)$/s.exec(value) ?? [];
  const cookies = value.includes('=') ? value.split(/; */).map((cookie) => cookie.slice(cookie.indexOf('=') + 1)) : [];
  const decoded = Buffer.from(credentials, 'base64').toString('utf8');
  const isText = /^[\x20-\x7e\xa0-\uffff]+$/.test(decoded) && !decoded.includes('\ufffd');
  const inside = isText ? [decoded, ...decoded.split(':').slice(1)] : [];
  return [value, credentials, ...cookies, ...inside];
}
