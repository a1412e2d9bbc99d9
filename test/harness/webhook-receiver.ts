/**
 * A receiver of notifications over HTTPS for tests: it keeps them, and answers as the test says. It fails the test file
 * when a notification is not as the OpenAPI document says.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { readBody } from '#platform/http/body.ts';
import { listen } from '#platform/http/server.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { closeAtEnd } from './close-at-end.ts';
import { answerCheckOfService } from './documented-answers.ts';
import { testCertificates } from './test-certificates.ts';
import type { TestOrganisation } from './test-organisation.ts';
import type { TestService } from './test-service.ts';

export interface Received {
  method: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
  json: { trigger: string; timestamp: string; payload: Record<string, unknown> };
}

export interface WebhookReceiver {
  readonly url: string;
  readonly received: Received[];
  /** The answer to the next notifications: a status, or a function that answers. */
  answer: number | ((response: ServerResponse, received: Received) => void);
}

export async function startWebhookReceiver(profile: ProfileName = 'spec'): Promise<WebhookReceiver> {
  const tls = testCertificates();
  const receiver: WebhookReceiver & { url: string } = { url: '', received: [], answer: 200 };
  const faults: string[] = [];
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await readBody(request, 10_000_000);
    const { method = '', headers } = request;
    const received = { method, headers, body, json: JSON.parse(body.toString()) };
    receiver.received.push(received);
    const fault = answerCheckOfService(profile).faultOfNotification(received.headers, received.json);
    if (fault !== undefined) faults.push(`${received.json.trigger}: ${fault}`);
    if (typeof receiver.answer === 'function') receiver.answer(response, received);
    else response.writeHead(receiver.answer).end();
  };
  const server = await listen((request, response) => void receive(request, response), {
    host: '127.0.0.1',
    port: 0,
    tls,
    publicHost: 'localhost',
  });
  closeAtEnd(async () => {
    await server.close(0);
    if (faults.length > 0) throw new Error(`Notifications are not as documented: ${faults.slice(0, 5).join('; ')}`);
  });
  receiver.url = `${server.url}/hook`;
  return receiver;
}

/** A new organisation, with a webhook that goes to a receiver of its own. */
export interface Hook {
  readonly organisation: TestOrganisation;
  readonly receiver: WebhookReceiver;
  readonly uuid: string;
  readonly signingKey: string;
}

export async function createHook(
  service: TestService,
  triggers: readonly string[] = ['SOURCING_EVENTS_FEED_UPDATED'],
): Promise<Hook> {
  const organisation = await service.organisation();
  const receiver = await startWebhookReceiver();
  const made = await organisation.call('POST', '/api/webhooks', { name: 'hook', url: receiver.url, triggers });
  return { organisation, receiver, uuid: made.body.uuid, signingKey: made.body.signing_key };
}
