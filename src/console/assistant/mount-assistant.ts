/**
 * The assistant's tools over HTTP, on the console's port, for who has a session there. They only read. The protocol's
 * requests are POST, also those that read, so the access check lets every role through and the tools check it. Each
 * request is answered for itself: nothing is kept between two of them, and no stream stays open after its session.
 */
import type { Express } from 'express';
import { AppError } from '#platform/errors.ts';
import { parseJson, readBody } from '#platform/http/body.ts';
import { loadOptional } from '#platform/optional-package.ts';
import { viewerOf } from '../access/viewer.ts';
import type { ConsoleDeps } from '../api/console-call.ts';
import type { ConsoleCalls } from '../api/create-console-calls.ts';
import { assistantPath } from './assistant-path.ts';
import { type Assistant, createAssistant } from './create-assistant.ts';

const bodyBytesMax = 64 * 1024;
const bodyWithinMs = 30_000;
const refusal = 'Over HTTP an assistant only reads: use the console, or the command mcp with --allow-changes.';

export function mountAssistant(express: Express, deps: ConsoleDeps, calls: ConsoleCalls): void {
  let loading: Promise<Assistant> | undefined;
  express.post(assistantPath, async (request, response) => {
    response.locals.route = assistantPath;
    const viewer = viewerOf(response);
    const parsedBody = parseJson(await readBody(request, bodyBytesMax, { withinMs: bodyWithinMs }));
    if (Array.isArray(parsedBody))
      throw new AppError('invalid', 'A batch of messages is not taken: send them one after the other.');
    const { createMcpHandler } = await loadOptional(
      'assistant',
      'An assistant',
      () => import('@modelcontextprotocol/server'),
    );
    loading ??= createAssistant(deps, calls);
    const assistant = await loading;
    const person = { ...viewer, kind: 'user', from: request.ip ?? null, mayChange: false, refusal } as const;
    const handler = createMcpHandler(() => assistant.serverFor(person), {
      maxSubscriptions: 0,
      onerror: (err) => deps.log.debug({ err }, 'a message of an assistant was refused'),
    });
    const asked = new Request(`http://console.invalid${assistantPath}`, {
      method: 'POST',
      headers: headersOf(request.headers),
    });
    const answer = await handler.fetch(asked, { parsedBody });
    response.status(answer.status).setHeader('Cache-Control', 'no-store');
    response.setHeader('Content-Type', answer.headers.get('content-type') ?? 'application/json');
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
}

/** Those that the protocol reads; the session stays outside. */
function headersOf(given: Readonly<Record<string, string | string[] | undefined>>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given))
    if (typeof value === 'string' && /^(accept|content-type|mcp-.*)$/.test(name)) headers.set(name, value);
  return headers;
}
