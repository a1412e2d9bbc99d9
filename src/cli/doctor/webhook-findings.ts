/** What the doctor finds about a source's webhook at its service. */
import { ofWebhook } from '#bridge/operate/status/conditions.ts';
import { faultOfListed } from '#bridge/operate/webhooks/find-fault.ts';
import { type ListedWebhook, listBridgeWebhooks } from '#bridge/operate/webhooks/list-webhooks.ts';
import { announcedTopics } from '#bridge/operate/webhooks/webhook-api.ts';
import { webhookUrlOf } from '#bridge/operate/webhooks/webhook-deps.ts';
import { type SourceSettings, takesJobs } from '#bridge/settings/settings.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { BridgeCommand } from '../bridge-command.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

/** Whether the service announces changes to this bridge: by a webhook that was registered here, or by another one. */
export async function findWebhooks(command: BridgeCommand, source: SourceSettings): Promise<DoctorFinding> {
  const name = `source ${source.name}: webhook`;
  const { installation, database, clock, settings } = command;
  const client = command.clientOf(source.name);
  const register = `bridge webhooks register --source ${source.name}`;
  let webhooks: readonly ListedWebhook[];
  try {
    ({ webhooks } = await listBridgeWebhooks({ client, source, database, secrets: installation.secrets, clock }));
  } catch (error) {
    if (error instanceof AppError && error.code === 'forbidden')
      return warn(
        name,
        'the API key may not see webhooks',
        `Give it the scope webhooks, or check at the service that a webhook goes to ${webhookUrlOf(settings, source.name)}.`,
      );
    return fail(
      name,
      `the service does not list its webhooks: ${errorText(error)}`,
      'Look at the line of the source itself.',
    );
  }
  const own = webhooks.filter(({ key }) => key === 'current');
  const fault = await faultOfListed({ client, source }, webhooks, webhookUrlOf(settings, source.name));
  if (fault) {
    const { level, summary, action } = ofWebhook({ source: source.name, ...fault });
    return { name, level, message: summary, todo: action };
  }
  const [registered] = own;
  const stranger = webhooks.find(
    ({ url, service, key }) =>
      key === 'none' && service === 'active' && url === webhookUrlOf(settings, source.name) && url === registered?.url,
  );
  if (registered && stranger)
    return warn(
      name,
      `two webhooks announce changes to ${registered.url}: ${registered.uuid} of this bridge, and ${stranger.uuid} of ` +
        'another installation, whose key is not known here',
      'Two bridges with one address, each with its own database, miss half of their notifications. Give one of them ' +
        'another public_host or source name; or, if it is gone, delete its webhook at the service.',
    );
  if (registered) {
    const announced = registered.triggers === null ? undefined : announcedTopics(registered.triggers);
    if (takesJobs(settings, source.name) && announced?.includes('jobs') === false)
      return warn(
        name,
        `${registered.uuid} does not announce the ends of jobs (JOB_UPDATED): no document is made of a job that this bridge has not sent itself`,
        `Register it again: ${register}.`,
      );
    const missing = source.feeds.filter((feed) => announced?.includes(feed) === false);
    const rest = missing.length === 0 ? '' : `; ${missing.join(', ')} not: read every ${source.poll_seconds} s only`;
    return ok(name, `${registered.uuid} announces changes to ${registered.url}${rest}`);
  }
  const madeElsewhere = webhooks.find(
    ({ url, service }) => service === 'active' && url === webhookUrlOf(settings, source.name),
  );
  if (madeElsewhere && source.signing_keys.length > 0)
    return ok(name, `${madeElsewhere.uuid} announces changes; its key must be in signing_keys`);
  return warn(
    name,
    `this bridge has registered none: the feeds are read every ${source.poll_seconds} s only`,
    `Register one: ${register}.`,
  );
}
