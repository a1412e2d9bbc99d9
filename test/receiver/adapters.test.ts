/** Each adapter in its real server, behind HTTPS, receives what the running service sends. */
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { beforeAll, describe, expect, test } from 'vitest';
import { signBody } from '#contract/signature.ts';
import { toFastifyPlugin, toHonoHandler, toLambdaHandler, toNodeHandler } from '../../src/receiver/adapters.ts';
import { createReceiver, type NotificationReceiver } from '../../src/receiver/create-receiver.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { eventually } from '../harness/eventually.ts';
import { createEvent, eventPayload } from '../harness/sourcing.ts';
import { testCertificates } from '../harness/test-certificates.ts';
import { startTestService, type TestService } from '../harness/test-service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});

/** How a server passes its requests to the receiver at /webhook. */
const servers: Record<string, (receiver: NotificationReceiver) => Promise<RequestListener>> = {
  'node:http': async (receiver) => toNodeHandler(receiver),
  Express: async (receiver) => {
    const app = express();
    app.post('/webhook', toNodeHandler(receiver));
    app.use(express.json());
    return app;
  },
  'Express behind express.raw': async (receiver) => {
    const app = express();
    app.use(express.raw({ type: 'application/json' }));
    app.post('/webhook', toNodeHandler(receiver));
    return app;
  },
  Fastify: async (receiver) => {
    const app = fastify();
    await app.register(toFastifyPlugin(receiver, '/webhook'));
    await app.ready();
    return (request, response) => app.routing(request, response);
  },
  Hono: async (receiver) => {
    const app = new Hono();
    app.post('/webhook', toHonoHandler(receiver));
    return answeredBy(async (request, response) => {
      const answer = await app.fetch(await webRequest(request));
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
    });
  },
  'AWS Lambda': async (receiver) => {
    const handler = toLambdaHandler(receiver);
    return answeredBy(async (request, response) => {
      const answer = await handler({
        headers: request.headers as Record<string, string>,
        body: (await buffer(request)).toString('base64'),
        isBase64Encoded: true,
        requestContext: { http: { method: request.method ?? '' } },
      });
      response.writeHead(answer.statusCode, answer.headers).end(answer.body);
    });
  },
};

describe.each(Object.entries(servers))('%s', (_name, listenerOf) => {
  test('receives what the service signs, and refuses a changed body', async () => {
    const seen: string[] = [];
    let signingKey = '';
    const receiver = createReceiver({
      signingKeys: () => [signingKey],
      on: {
        TEST: ({ payload }) => seen.push(`test: ${typeof payload.detail}`),
        SOURCING_EVENTS_FEED_UPDATED: ({ payload }) => seen.push(payload.sourcing_event_name),
      },
    });
    const url = await listen(await listenerOf(receiver), testCertificates());
    const organisation = await service.organisation();
    const triggers = ['SOURCING_EVENTS_FEED_UPDATED'];
    const made = await organisation.call('POST', '/api/webhooks', { name: 'hook', url: `${url}/webhook`, triggers });
    signingKey = made.body.signing_key;
    expect((await organisation.call('POST', `/api/webhooks/${made.body.uuid}/test`)).status).toBe(202);
    await eventually('the test notification has come', async () => seen.includes('test: string'));
    await createEvent(organisation, eventPayload({ name: 'Stühle für Åsa' }));
    await eventually('the notification of the event has come', async () => seen.includes('Stühle für Åsa'));
    await eventually('the service knows that both were taken', async () => {
      const { body } = await organisation.call('GET', `/api/webhooks/${made.body.uuid}/deliveries`);
      const states: string[] = body.result.map(({ state }: { state: string }) => state);
      return states.length === 2 && states.every((state) => state === 'delivered');
    });
  });
});

describe('a body that is not the bytes as they came', () => {
  test('is refused, and one that a parser has taken is said to be', async () => {
    const errors: unknown[] = [];
    const receiver = createReceiver({ signingKeys: ['key'], on: {}, onError: (error) => errors.push(error) });
    const app = express();
    app.use(express.json());
    app.post('/webhook', toNodeHandler(receiver));
    const url = await listen(app);
    const body = JSON.stringify({ trigger: 'TEST', timestamp: new Date().toISOString(), payload: { detail: 'x' } });
    const headers = { 'content-type': 'application/json', 'x-signature': signBody(body, 'key') };
    expect((await fetch(`${url}/webhook`, { method: 'POST', body, headers })).status).toBe(500);
    expect(String(errors[0])).toContain('before a parser such as express.json()');
    const raw = await listen(await servers['node:http']!(receiver));
    const changed = body.replace('"x"', '"y"');
    expect((await fetch(raw, { method: 'POST', body: changed, headers })).status).toBe(401);
    expect((await fetch(raw, { method: 'POST', body, headers })).status).toBe(200);
    expect(errors).toHaveLength(1);
  });
});

async function listen(listener: RequestListener, tls?: { certPem: string; keyPem: string }): Promise<string> {
  const server: Server = tls
    ? createServer({ cert: tls.certPem, key: tls.keyPem }, listener)
    : createHttpServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`;
}

/** An asynchronous answer as a listener; when it fails, the connection ends. */
function answeredBy(answer: (...exchange: Parameters<RequestListener>) => Promise<unknown>): RequestListener {
  return (request, response) => void answer(request, response).catch(() => response.destroy());
}

async function webRequest(request: IncomingMessage): Promise<Request> {
  return new Request(`https://localhost${request.url}`, {
    method: request.method ?? 'GET',
    headers: request.headers as Record<string, string>,
    body: await buffer(request),
  });
}
