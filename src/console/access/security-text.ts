/** `/.well-known/security.txt` (RFC 9116): whom to tell about a weakness of this installation, before any login. */
import type { RequestHandler } from 'express';
import { addMicros } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';

export const securityTextPath = '/.well-known/security.txt';
/** RFC 9116 wants an end within a year. The text is made at each request, so it never expires. */
const validMicros = 180 * 24 * 3_600 * 1_000_000;

/** `contact` is a `mailto:` or `https:` URL. */
export function answerSecurityText(contact: string, clock: Clock): RequestHandler {
  return (_request, response) => {
    response.locals.route = securityTextPath;
    response.type('text/plain').send(`Contact: ${contact}\nExpires: ${addMicros(timestampNow(clock), validMicros)}\n`);
  };
}
