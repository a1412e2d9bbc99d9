/**
 * `bridge webhooks`: the webhooks that a source's service sends to this bridge. Exit codes: 0 done, 1 failed (a test
 * did not arrive) or not done in full (the service refuses the trigger of a feed), 2 wrong usage or settings.
 */
import { deleteWebhooks } from '#bridge/operate/webhooks/delete-webhooks.ts';
import { type ListedWebhook, listBridgeWebhooks } from '#bridge/operate/webhooks/list-webhooks.ts';
import type { MadeWebhook } from '#bridge/operate/webhooks/make-webhook.ts';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { rotateWebhooks } from '#bridge/operate/webhooks/rotate-webhooks.ts';
import { type TestedWebhook, testWebhooks } from '#bridge/operate/webhooks/test-webhook.ts';
import { type WebhookDeps, webhookUrlOf } from '#bridge/operate/webhooks/webhook-deps.ts';
import { takesJobs } from '#bridge/settings/settings.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, findSource, withBridge } from '../bridge-command.ts';
import { print, tableOf } from '../output.ts';

interface SourceOptions extends BridgeCommandOptions {
  source: string;
}

interface RegisterOptions extends SourceOptions {
  url?: string;
}

interface ChosenOptions extends SourceOptions {
  uuid?: string;
}

interface TestOptions extends ChosenOptions {
  timeout: number;
}

export function runWebhookRegister(options: RegisterOptions): Promise<number> {
  return withBridge(options, async (command) => {
    const { settings } = command;
    const { name: source, poll_seconds: pollSeconds } = findSource(settings, options.source);
    if (options.url === undefined && settings.port === 0)
      throw new AppError('invalid', 'The port of the webhook endpoint is not fixed (bridge.port is 0): add --url.');
    const url = options.url ?? webhookUrlOf(settings, source);
    const details = { name: 'sourcing-bridge', url };
    const { webhook, made, deleted } = await command.perform(
      { what: 'webhook.register', object: `source ${source}`, details },
      () => registerWebhook(depsOf(command, source), details),
    );
    print(options, { source, ...webhook, made, deleted }, () =>
      [
        made
          ? `The webhook ${webhook.uuid} now announces changes to ${url}; its signing key is stored.`
          : `The webhook ${webhook.uuid} announces changes to ${url} already.`,
        ...unannouncedLines(webhook, pollSeconds),
        ...deletedLines(deleted),
      ].join('\n'),
    );
    return webhook.unannounced.length === 0 ? 0 : 1;
  });
}

/** What a person must know of feeds and jobs that have no trigger. */
function unannouncedLines({ uuid, unannounced }: MadeWebhook, pollSeconds: number): string[] {
  const feeds = unannounced.filter((topic) => topic !== 'jobs');
  const ofFeeds =
    `Not registered: ${feeds.join(', ')}. The service refuses the ` +
    `${feeds.length === 1 ? 'trigger of this feed' : 'triggers of these feeds'}, so ${uuid} does not announce ` +
    `${feeds.length === 1 ? 'it: it is' : 'them: they are'} read every ${pollSeconds} s.`;
  const ofJobs =
    `Not registered: jobs. The service refuses the trigger JOB_UPDATED, so ${uuid} does not announce the ends of jobs: ` +
    'only those that an intake of this bridge has sent are read.';
  return [...(feeds.length > 0 ? [ofFeeds] : []), ...(unannounced.includes('jobs') ? [ofJobs] : [])];
}

export function runWebhookRotate(options: SourceOptions): Promise<number> {
  return withBridge(options, async (command) => {
    const { poll_seconds: pollSeconds } = findSource(command.settings, options.source);
    const { webhooks, deleted } = await command.perform(
      { what: 'webhook.rotate', object: `source ${options.source}` },
      () => rotateWebhooks(depsOf(command, options.source)),
    );
    print(options, { source: options.source, webhooks, deleted }, () =>
      [
        ...webhooks.map(({ uuid, url }) => `The webhook ${uuid} with a new key announces changes to ${url}.`),
        ...webhooks.flatMap((webhook) => unannouncedLines(webhook, pollSeconds)),
        ...deletedLines(deleted),
        'The feeds are read now, because the deleted webhooks may not have announced every change.',
      ].join('\n'),
    );
    return webhooks.every(({ unannounced }) => unannounced.length === 0) ? 0 : 1;
  });
}

export function runWebhookTest(options: TestOptions): Promise<number> {
  return withBridge(options, async (command) => {
    const { installation, signal } = command;
    const tested = await command.perform(
      { what: 'webhook.test', object: `source ${options.source}`, details: { uuid: options.uuid } },
      () =>
        testWebhooks(
          { ...depsOf(command, options.source), fetch: installation.outgoing.fetch },
          { uuid: options.uuid, timeoutMs: options.timeout * 1000, signal },
        ),
    );
    print(options, { source: options.source, tested }, () => tested.map(testText).join('\n'));
    return tested.every(({ arrived }) => arrived) ? 0 : 1;
  });
}

function testText({ uuid, url, arrived, tookMs, findings }: TestedWebhook): string {
  return arrived
    ? `The test of the webhook ${uuid} is in the inbox, after ${tookMs} ms.`
    : [`The test of the webhook ${uuid} to ${url} did not arrive.`, ...findings.map((each) => `- ${each}`)].join('\n');
}

export function runWebhookList(options: SourceOptions): Promise<number> {
  return withBridge(options, async (command) => {
    const { webhooks, listable } = await listBridgeWebhooks(depsOf(command, options.source));
    print(options, { source: options.source, listable, webhooks }, () =>
      [
        tableOf(
          ['webhook', 'name', 'url', 'at the service', 'key here', 'triggers'],
          webhooks.map(({ uuid, name, url, service, key, triggers }) => [
            uuid,
            name,
            url,
            service,
            keyText[key],
            triggers?.replace(/^\[|\]$/g, ''),
          ]),
          'No webhooks.',
        ),
        ...(listable
          ? []
          : ['The service does not list its webhooks: webhooks that were not registered here are not shown.']),
      ].join('\n'),
    );
    return 0;
  });
}

const keyText: Record<ListedWebhook['key'], string> = {
  current: 'current',
  retired: 'retired, valid for an hour',
  unfinished: 'unfinished: register it again',
  none: 'none, unless in signing_keys',
};

export function runWebhookDelete(options: ChosenOptions): Promise<number> {
  return withBridge(options, async (command) => {
    const deleted = await command.perform(
      { what: 'webhook.delete', object: `source ${options.source}`, details: { uuid: options.uuid } },
      () => deleteWebhooks(depsOf(command, options.source), options.uuid),
    );
    print(options, { source: options.source, deleted }, () =>
      deleted.length === 0 ? 'There was no webhook to delete.' : deletedLines(deleted).join('\n'),
    );
    return 0;
  });
}

function deletedLines(deleted: readonly string[]): string[] {
  return deleted.map((uuid) => `The webhook ${uuid} is deleted at the service.`);
}

function depsOf(command: BridgeCommand, name: string): WebhookDeps {
  const source = findSource(command.settings, name);
  const { installation, database, clock } = command;
  const jobs = takesJobs(command.settings, name);
  return { client: command.clientOf(name), source, jobs, database, secrets: installation.secrets, clock };
}
