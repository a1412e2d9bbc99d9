/** The signature of Standard Webhooks, as that standard's own library verifies it. */
import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { signStandard } from '#contract/signature.ts';
import { eventually } from '../../harness/eventually.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';

const service = await startTestService();

async function setUp(more: object) {
  const organisation = await service.organisation();
  const receiver = await startWebhookReceiver();
  const hook = { name: 'hook', url: receiver.url, triggers: ['TEST'], ...more };
  const made = await organisation.call('POST', '/api/webhooks', hook, { 'idempotency-key': 'once' });
  const again = await organisation.call('POST', '/api/webhooks', hook, { 'idempotency-key': 'once' });
  const test = async (count: number) => {
    await organisation.call('POST', `/api/webhooks/${made.body.uuid}/test`);
    return eventually('it arrives', async () => receiver.received.length === count && receiver.received.at(-1));
  };
  return { organisation, receiver, made, again, test };
}

test('a webhook that asks for it is signed so, at each attempt, beside X-Signature', async () => {
  const { organisation, receiver, made, again, test } = await setUp({ standard_webhooks: true });
  const { standard_webhooks_key: key, uuid } = made.body;
  const webhook = new Webhook(key);
  const first = await test(1);
  expect(webhook.verify(String(first?.body), first?.headers as Record<string, string>)).toEqual(first?.json);
  expect(first?.headers['x-signature']).toMatch(/^hmac-sha256=/);
  const [{ id }] = (await organisation.call('GET', `/api/webhooks/${uuid}/deliveries`)).body.result;
  await organisation.call('POST', `/api/webhooks/${uuid}/deliveries/${id}/resend`);
  const second = await eventually('again', async () => receiver.received.length === 2 && receiver.received[1]);
  expect(webhook.verify(String(second?.body), second?.headers as Record<string, string>)).toEqual(first?.json);
  expect(() => webhook.verify(`${String(second?.body)} `, second?.headers as Record<string, string>)).toThrow(
    /signature/,
  );
  // The key is shown once, and stored sealed.
  expect(again.body).toEqual({ ...made.body, signing_key: undefined, standard_webhooks_key: undefined });
  const [row] = await service.db.database.query<{ standard_key: Buffer }>(
    'select standard_key from service.webhooks where id = $1',
    [uuid],
  );
  expect(row?.standard_key.toString('latin1')).not.toContain(key.slice(6));
});

test('another webhook has no such header and no such key', async () => {
  const { made, test } = await setUp({});
  expect(made.body).not.toHaveProperty('standard_webhooks_key');
  expect((await test(1))?.headers).not.toHaveProperty('webhook-signature');
});

test('the signature is the one of the standard, also of bytes beyond ASCII', () => {
  const key = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
  const body = Buffer.from('{"name":"Kraków 東京"}');
  const timestampS = Math.floor(Date.now() / 1000);
  const expected = new Webhook(key).sign('msg_1', new Date(timestampS * 1000), body.toString());
  expect(signStandard({ id: 'msg_1', timestampS, body }, key)).toBe(expected);
});
