/** Notifications as whole HTTP requests: distinct, and signed beforehand, like what the service sends. */
import { createHmac } from 'node:crypto';

export const signingKey = 'signing-key-of-the-benchmark';
export const bodyBytes = 400;

let made = 0;

/** Of the source `main`. No two calls make the same. */
export function makeRequests(count: number): string[] {
  const timestamp = `${new Date().toISOString().slice(0, 19)}.000000Z`;
  return Array.from({ length: count }, () => {
    made += 1;
    const payload = { sourcing_event_name: 'Forged steel flanges', number: made, pad: '' };
    const shell = JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', timestamp, payload });
    payload.pad = 'x'.repeat(bodyBytes - shell.length);
    const body = JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', timestamp, payload });
    const signature = createHmac('sha256', signingKey).update(body).digest('hex');
    return [
      'POST /webhooks/main HTTP/1.1',
      'Host: localhost',
      'Content-Type: application/json',
      `X-Signature: hmac-sha256=${signature}`,
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\r\n');
  });
}
