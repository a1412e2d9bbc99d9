/** A notification that an attacker has recorded, and sends again with its genuine signature. */
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { anyNetwork } from '#platform/network-guard.ts';
import { givenUpAfterMs } from '#service/webhooks/retry-schedule.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { testOutgoing } from '../harness/test-certificates.ts';

const nowMs = Date.UTC(2030, 0, 1);
const key = 'a-signing-key-of-this-test';
const hourMs = 3_600_000;

test('is worth nothing after four days, while what the service still repeats counts', async () => {
  const clock = { nowMs: () => nowMs, sleep: () => new Promise<void>(() => undefined) };
  const source = { name: 'main', base_url: 'https://localhost:1', api_key: 'k', signing_keys: [key] };
  const { bridge } = await startTestBridge({ sources: [source] }, { clock, role: 'receive' });
  const send = async (ageMs: number) => {
    const timestamp = new Date(nowMs - ageMs).toISOString();
    const body = JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', timestamp, payload: {} });
    const signature = `hmac-sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
    const answer = await testOutgoing().fetch({
      url: bridge.webhookUrl('main'),
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-signature': signature },
      body,
      allowedNetworks: anyNetwork,
      timeoutMs: 10_000,
      responseBytesMax: 1_000,
    });
    return [answer.status, JSON.parse(answer.body.toString()).status];
  };
  expect(await send(96 * hourMs + 1)).toEqual([200, 'stale']);
  expect(await send(96 * hourMs)).toEqual([200, 'accepted']);
  expect(await send(givenUpAfterMs)).toEqual([200, 'accepted']);
});
