/** Rotates a signing key by the contract's three steps, with a receiver that knows one key at a time. */
import { expect, test } from 'vitest';
import { signatureMatches } from '#contract/signature.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';
import { type Received, startWebhookReceiver } from '../../harness/webhook-receiver.ts';

const clock = createManualClock();
const service = await startTestService({ clock, random: () => 0.5 });

test('rotation loses no notification: each webhook has its own key, and refused ones are retried', async () => {
  const organisation = await service.organisation();
  const receiver = await startWebhookReceiver();
  const settings = { name: 'hook', url: receiver.url, triggers: ['SOURCING_EVENTS_FEED_UPDATED'] };
  const create = async () => (await organisation.call('POST', '/api/webhooks', settings)).body;
  let knownKey = '';
  const accepted: Received[] = [];
  receiver.answer = (response, received) => {
    const genuine = signatureMatches(received.body, received.headers['x-signature'] as string, [knownKey]);
    if (genuine) accepted.push(received);
    response.writeHead(genuine ? 204 : 401).end();
  };
  /** Creates an event, and waits until the service has sent what is due. */
  const change = async (name: string) => {
    clock.advance(1);
    await createEvent(organisation, eventPayload({ name }));
    await waitUntilIdle();
  };
  const waitUntilIdle = () =>
    eventually('nothing is due', async () => {
      const rows = await service.db.database.query(
        `select from service.deliveries where state = 'sending' or (state = 'pending' and due <= $1)`,
        [new Date(clock.nowMs()).toISOString()],
      );
      return rows.length === 0;
    });
  const acceptedNames = () => accepted.map(({ json }) => json.payload['sourcing_event_name']);

  const old = await create();
  knownKey = old.signing_key;
  await change('before');
  expect(acceptedNames()).toEqual(['before']);

  // 1. A new webhook with the same settings: both are notified, and the receiver knows the old key only.
  const next = await create();
  expect(next.signing_key).not.toBe(old.signing_key);
  receiver.received.length = 0;
  await change('both');
  expect(receiver.received).toHaveLength(2);
  for (const { signing_key: key } of [old, next])
    expect(
      receiver.received.filter(({ body, headers }) => signatureMatches(body, headers['x-signature'] as string, [key])),
    ).toHaveLength(1);
  expect(acceptedNames()).toEqual(['before', 'both']);

  // 2. The receiver takes the new key; the old webhook is not deleted yet.
  knownKey = next.signing_key;
  await change('after the switch');

  // 3. The old webhook is deleted, with its pending notifications.
  expect((await organisation.call('DELETE', `/api/webhooks/${old.uuid}`)).status).toBe(204);
  await change('after the deletion');
  clock.advance(60_000);
  await service.service.sweep();
  await waitUntilIdle();

  // Although some were refused, the receiver has accepted a notification for each change.
  const records = await readWholeFeed(organisation, 'sourcing-events');
  for (const { modified } of records)
    expect(accepted.some(({ json }) => String(json.payload['feed_modified']) >= modified)).toBe(true);
  expect(acceptedNames().at(-1)).toBe('after the deletion');
  const left = await service.db.database.query(
    `select state from service.deliveries where state in ('pending', 'sending')`,
  );
  expect(left).toEqual([]);
  // The old webhook's notifications stopped with it.
  const heard = receiver.received.length;
  await change('later');
  expect(receiver.received.length).toBe(heard + 1);
});
