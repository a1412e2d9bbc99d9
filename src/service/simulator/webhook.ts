/**
 * The webhook of a story, as a developer of its receiver uses it: it is resumed and told of everything, and at the end
 * its delivery log says what the receiver answered. What the receiver refused is sent once more.
 */
import type { WebhookCalls } from '#client/webhook-calls.ts';
import { type Trigger, triggerNameElsewhere, triggers } from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';
import type { SimulatorStage } from './stage.ts';

/** The newest notifications that the end of a story looks at: the most that a page holds by the public pages. */
const lookedAtMax = 200;

/** Resumes the webhook if it is disabled, subscribes it to every trigger, and sends it a test notification. */
export async function announceToWebhook(
  webhooks: WebhookCalls,
  uuid: string,
  print: (line: string) => void,
): Promise<void> {
  const { name, is_active: isActive } = await webhooks.readWebhook(uuid);
  const isDisabled = isActive === false;
  const subscribe = (names: readonly string[]) =>
    webhooks.updateWebhook(uuid, { triggers: names as Trigger[], ...(isDisabled ? { is_active: true } : {}) });
  await subscribe(triggers).catch((error: unknown) => {
    if (!(error instanceof AppError) || error.code !== 'invalid') throw error;
    return subscribe(triggers.map(triggerNameElsewhere));
  });
  await webhooks.testWebhook(uuid);
  print(`The webhook "${name}" is told of everything${isDisabled ? '; it was disabled, and is resumed' : ''}`);
}

/**
 * Waits until every notification was tried, sends those that failed once more, and prints how many the receiver has
 * acknowledged. The service goes on to try the others on its schedule.
 */
export async function resendFailed(
  { webhooks, waitUntil }: Pick<SimulatorStage, 'webhooks' | 'waitUntil'>,
  uuid: string,
  print: (line: string) => void,
): Promise<void> {
  const log = async () => (await webhooks.listDeliveries(uuid, { pageSize: lookedAtMax })).items;
  const isDisabled = async () => (await webhooks.readWebhook(uuid)).is_active === false;
  await waitUntil(async () => (await log()).every(wasTried) || (await isDisabled()));
  const failed = (await log()).filter(({ state }) => state !== 'delivered');
  if (failed.length > 0 && !(await isDisabled())) {
    print(`The webhook gets ${failed.length} notifications again that its receiver has not acknowledged`);
    for (const { id } of failed) await webhooks.resendDelivery(uuid, id);
    const triesBefore = new Map(failed.map((delivery) => [delivery.id, triesOf(delivery)]));
    const wasTriedAgain = (delivery: Delivery) =>
      delivery.state === 'delivered' || triesOf(delivery) > (triesBefore.get(delivery.id) ?? 0);
    await waitUntil(async () => (await log()).every(wasTriedAgain) || (await isDisabled()));
  }
  const end = await log();
  const acknowledged = end.filter(({ state }) => state === 'delivered').length;
  print(`The webhook's receiver has acknowledged ${acknowledged} of ${end.length} notifications`);
  if (await isDisabled()) print('The webhook is disabled: its receiver answered 410, or failed for five days');
}

type Delivery = Awaited<ReturnType<WebhookCalls['listDeliveries']>>['items'][number];

function wasTried(delivery: Delivery): boolean {
  return delivery.state !== 'sending' && triesOf(delivery) > 0;
}

function triesOf(delivery: Delivery): number {
  return Array.isArray(delivery['attempts']) ? delivery['attempts'].length : 0;
}
