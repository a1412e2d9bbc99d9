/**
 * What the running service sends is received over HTTPS; and over a real connection, what parsers and middlewares before an
 * adapter do to the body.
 */
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer } from 'node:https';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { getRequestListener } from '@hono/node-server';
import express, { type RequestHandler } from 'express';
import fastify from 'fastify';
import { Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { describe, expect, test } from 'vitest';
import { signBody } from '#contract/signature.ts';
import { toFastifyPlugin, toHonoHandler, toNodeHandler } from '../../src/receiver/adapters.ts';
import { createReceiver, type NotificationReceiver } from '../../src/receiver/create-receiver.ts';
import { type LambdaEvent, toLambdaHandler } from '../../src/receiver/lambda-handler.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { eventually } from '../harness/eventually.ts';
import { createEvent, eventPayload } from '../harness/sourcing.ts';
import { testCertificates } from '../harness/test-certificates.ts';
import { startTestService } from '../harness/test-service.ts';

const require = createRequire(import.meta.url);
/** Has no types of its own; what is used of it is as in Express 5. */
const express4 = require('express4') as typeof express;

interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: Parameters<RequestListener>[1];
}
/** What is used of it. */
const Koa = require('koa') as new () => {
  use(middleware: (ctx: KoaContext, next: () => Promise<void>) => Promise<void>): void;
  callback(): RequestListener;
};

/** test/receiver/library-examples.test.ts has every framework. */
test('what the service signs is received over HTTPS', async () => {
  const service = await startTestService();
  const seen: unknown[] = [];
  let signingKey = '';
  const receiver = createReceiver({
    signingKeys: () => [signingKey],
    on: {
      TEST: ({ payload }) => seen.push(`test: ${typeof payload.detail}`),
      SOURCING_EVENTS_FEED_UPDATED: ({ payload }) => seen.push(payload.sourcing_event_name),
    },
  });
  const url = await listen((...exchange) => void toNodeHandler(receiver)(...exchange), testCertificates());
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

const key = 'the-signing-key';
const detail = 'Stühle für Åsa';
/** Its number is exact only as it stands: who parses it and writes it again changes it. */
const body = `{"trigger":"TEST","timestamp":"${new Date().toISOString()}","payload":{"detail":"${detail}","count":1.0}}`;

function receiverOfTest() {
  const seen: unknown[] = [];
  const errors: unknown[] = [];
  const receiver = createReceiver({
    signingKeys: [key],
    on: { TEST: ({ payload }) => seen.push(payload.detail) },
    onError: (error) => errors.push(error),
  });
  return { receiver, seen, errors };
}

/** The statuses of the notification and of one with another body, sent to a listener over a connection. */
async function statusesOf(listener: RequestListener): Promise<number[]> {
  const url = `${await listen(listener)}/webhook`;
  const headers = { 'content-type': 'application/json', 'x-signature': signBody(body, key) };
  const statuses: number[] = [];
  for (const sent of [body, body.replace('1.0', '1.1')])
    statuses.push((await fetch(url, { method: 'POST', body: sent, headers })).status);
  return statuses;
}

describe.each([
  ['Express 5', express],
  ['Express 4', express4],
])('%s', (_name, express) => {
  function behind(parser: RequestHandler, receiver: NotificationReceiver): RequestListener {
    const app = express();
    app.use(parser);
    app.post('/webhook', toNodeHandler(receiver));
    return app;
  }
  const keeping = (keep: (bytes: Buffer) => unknown) =>
    express.json({ verify: (request, _response, bytes) => void Object.assign(request, { rawBody: keep(bytes) }) });

  test.each<[string, RequestHandler]>([
    ['express.raw()', express.raw({ type: '*/*' })],
    ['express.text()', express.text({ type: '*/*' })],
    ['express.json() that keeps req.rawBody, as in Nest and Cloud Functions', keeping((bytes) => bytes)],
    ['express.json() that keeps req.rawBody as text', keeping(String)],
    ['express.raw() for other types', express.raw()],
    ['express.urlencoded()', express.urlencoded({ extended: false })],
    [
      'a middleware that begins to collect req.rawBody',
      (request, _response, next) => {
        Object.assign(request, { rawBody: '' });
        next();
      },
    ],
  ])('behind %s the bytes are found', async (_parser, parser) => {
    const { receiver, seen, errors } = receiverOfTest();
    expect(await statusesOf(behind(parser, receiver))).toEqual([200, 401]);
    expect([seen, errors]).toEqual([[detail], []]);
  });

  test('behind express.json() the error names the parser and what to do', async () => {
    const { receiver, seen, errors } = receiverOfTest();
    expect(await statusesOf(behind(express.json(), receiver))).toEqual([500, 500]);
    expect(String(errors[0])).toContain('a parser before the receiver, such as express.json() or koa-bodyparser');
    expect(String(errors[0])).toContain('has left an object in req.body');
    expect(String(errors[0])).toContain('express.json({ verify: (req, _res, bytes) => { req.rawBody = bytes; } })');
    expect(seen).toEqual([]);
  });
});

describe('Koa', () => {
  test.each<[string, (ctx: KoaContext) => unknown]>([
    ['has read the body', ({ req }) => text(req)],
    ['has made the body text', ({ req }) => req.setEncoding('utf8')],
  ])('behind a middleware that %s the error says so', async (_name, read) => {
    const { receiver, errors } = receiverOfTest();
    const app = new Koa();
    app.use(async (ctx, next) => {
      await read(ctx);
      await next();
    });
    app.use(async ({ req, res }) => toNodeHandler(receiver)(req, res));
    expect(await statusesOf(app.callback())).toEqual([500, 500]);
    expect(String(errors[0])).toContain('such as express.json() or koa-bodyparser, has read them.');
  });
});

describe('Fastify', () => {
  test('has its own parsers for other routes, and a hook that replaces the body is named', async () => {
    const { receiver, errors } = receiverOfTest();
    const app = fastify();
    app.post('/other', async ({ body: parsed }) => ({ parsed }));
    await app.register(toFastifyPlugin(receiver, '/webhook'));
    await app.ready();
    expect(await statusesOf((request, response) => app.routing(request, response))).toEqual([200, 401]);
    const other = await app.inject({ method: 'POST', url: '/other', payload: { a: 1 } });
    expect(other.json()).toEqual({ parsed: { a: 1 } });

    const hooked = fastify();
    hooked.addHook('preValidation', async (request) => {
      request.body = JSON.parse(String(request.body));
    });
    await hooked.register(toFastifyPlugin(receiver, '/webhook'));
    await hooked.ready();
    expect(await statusesOf((request, response) => hooked.routing(request, response))).toEqual([500, 500]);
    expect(String(errors[0])).toContain('A hook of Fastify has replaced the bytes of the body by an object');
  });
});

describe('Hono', () => {
  function behind(middleware: MiddlewareHandler, receiver: NotificationReceiver): RequestListener {
    const app = new Hono();
    app.use(middleware);
    app.post('/webhook', toHonoHandler(receiver));
    return honoListener(app);
  }
  const reading =
    (read: (context: Parameters<MiddlewareHandler>[0]) => unknown): MiddlewareHandler =>
    async (context, next) => {
      await read(context);
      await next();
    };

  test.each<[string, MiddlewareHandler]>([
    ['c.req.text()', reading(({ req }) => req.text())],
    ['c.req.json()', reading(({ req }) => req.json())],
    ['c.req.arrayBuffer()', reading(({ req }) => req.arrayBuffer())],
    ['c.req.blob()', reading(({ req }) => req.blob())],
    ['c.req.raw.clone()', reading(({ req }) => req.raw.clone().text())],
    ['bodyLimit()', bodyLimit({ maxSize: 10_000 })],
  ])('behind a middleware with %s the bytes are found', async (_name, middleware) => {
    const { receiver, seen, errors } = receiverOfTest();
    expect(await statusesOf(behind(middleware, receiver))).toEqual([200, 401]);
    expect([seen, errors]).toEqual([[detail], []]);
  });

  test('behind one that has read c.req.raw the error says what to call', async () => {
    const { receiver, errors } = receiverOfTest();
    expect(
      await statusesOf(
        behind(
          reading(({ req }) => req.raw.text()),
          receiver,
        ),
      ),
    ).toEqual([500, 500]);
    expect(String(errors[0])).toContain('Let it call c.req.text() or c.req.json()');
  });
});

describe('AWS Lambda', () => {
  const signature = signBody(body, key);
  const base64 = { body: Buffer.from(body).toString('base64'), isBase64Encoded: true };
  /** As AWS documents them, with the members that matter here. */
  const events: Record<string, LambdaEvent & { readonly version?: string }> = {
    'of an HTTP API or function URL (2.0)': {
      version: '2.0',
      headers: { 'x-signature': signature },
      requestContext: { http: { method: 'POST', path: '/webhook' }, stage: '$default' },
      body,
      isBase64Encoded: false,
    },
    'of an HTTP API, in Base64': {
      version: '2.0',
      headers: { 'x-signature': signature },
      requestContext: { http: { method: 'POST', path: '/webhook' } },
      ...base64,
    },
    'of a REST API (1.0), with names as they were sent': {
      httpMethod: 'POST',
      headers: { Host: 'example.com', 'X-Signature': signature },
      multiValueHeaders: { Host: ['example.com'], 'X-Signature': [signature] },
      requestContext: { httpMethod: 'POST', resourcePath: '/webhook' },
      body,
      isBase64Encoded: false,
    },
    'of a REST API, in Base64': {
      httpMethod: 'POST',
      headers: { 'X-SIGNATURE': signature },
      multiValueHeaders: null,
      requestContext: {},
      ...base64,
    },
    'of a load balancer': {
      httpMethod: 'POST',
      headers: { 'x-signature': signature },
      requestContext: { elb: { targetGroupArn: 'arn:aws:elasticloadbalancing:…' } },
      body,
      isBase64Encoded: false,
    },
    'of a load balancer with multi-value headers': {
      httpMethod: 'POST',
      multiValueHeaders: { 'x-signature': [signature] },
      requestContext: { elb: { targetGroupArn: 'arn:aws:elasticloadbalancing:…' } },
      ...base64,
    },
  };

  test.each(Object.entries(events))('an event %s is taken, and a changed body refused', async (_name, event) => {
    const { receiver, seen, errors } = receiverOfTest();
    const handler = toLambdaHandler(receiver);
    const changed = { ...event, body: event.isBase64Encoded ? base64.body.replace(/^./, 'f') : `${body} ` };
    expect((await handler(changed)).statusCode).toBe(401);
    expect(await handler(event)).toMatchObject({ statusCode: 200, isBase64Encoded: false });
    expect([seen, errors]).toEqual([[detail], []]);
  });

  test('a load balancer with multi-value headers is answered with such, and the others with plain ones', async () => {
    const handler = toLambdaHandler(receiverOfTest().receiver);
    const answers = await Promise.all(
      Object.values(events).map(async (event) => await handler({ ...event, body: null })),
    );
    const plain = { 'content-type': 'application/json' };
    expect(answers.map(({ headers }) => headers)).toEqual(answers.map(() => plain));
    expect(answers.map(({ multiValueHeaders }) => multiValueHeaders)).toEqual([
      ...answers.slice(1).map(() => undefined),
      { 'content-type': ['application/json'] },
    ]);
  });

  test('two signatures are none', async () => {
    const handler = toLambdaHandler(receiverOfTest().receiver);
    const event = { httpMethod: 'POST', multiValueHeaders: { 'x-signature': [signature, signature] }, body };
    expect((await handler(event)).statusCode).toBe(401);
  });

  test.each([
    [{ Records: [{ eventSource: 'aws:sqs', body }] }, 'This event is one of aws:sqs.'],
    [{ Records: [{ EventSource: 'aws:sns', Sns: { Message: body } }] }, 'This event is one of aws:sns.'],
    [{ source: 'aws.events', 'detail-type': 'Scheduled Event', detail: {} }, 'This event is one of aws.events.'],
    [
      { version: '2.0', path: '/webhook', method: 'POST', headers: { 'x-signature': ['…'] }, requestContext: {} },
      'This event is an object with the members version, path, method, headers, requestContext.',
    ],
    [{}, 'This event is an object with the members (none).'],
    [undefined, 'This event is undefined.'],
    ['test', 'This event is a string.'],
  ])('an event of another form is refused by its form: %o', async (event, message) => {
    const handler = toLambdaHandler(receiverOfTest().receiver);
    await expect(handler(event as LambdaEvent)).rejects.toThrow(message);
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

function honoListener(app: Hono): RequestListener {
  const listener = getRequestListener(app.fetch);
  return answeredBy(async (request, response) => listener(request, response));
}

/** An asynchronous answer as a listener; when it fails, the connection ends. */
function answeredBy(answer: (...exchange: Parameters<RequestListener>) => Promise<unknown>): RequestListener {
  return (request, response) => void answer(request, response).catch(() => response.destroy());
}
