/** An OAuth token server over HTTPS for tests: it keeps the requests, and answers as the test says. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { readBody } from '#platform/http/body.ts';
import { listen } from '#platform/http/server.ts';
import { closeAtEnd } from './close-at-end.ts';
import { testCertificates } from './test-certificates.ts';

export interface TokenRequest {
  headers: IncomingHttpHeaders;
  form: Record<string, string>;
}

export interface TokenServer {
  readonly url: string;
  readonly asked: TokenRequest[];
  /** Answers the next requests; by default with `token-1`, then `token-2` and so on. */
  answer: (response: ServerResponse, request: TokenRequest) => void;
}

export function giveJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export async function startTokenServer(): Promise<TokenServer> {
  const tls = testCertificates();
  const asked: TokenRequest[] = [];
  const tokenServer: TokenServer & { url: string } = {
    url: '',
    asked,
    answer: (response) =>
      giveJson(response, 200, { access_token: `token-${asked.length}`, token_type: 'Bearer', expires_in: 3600 }),
  };
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = (await readBody(request, 10_000)).toString();
    const tokenRequest = { headers: request.headers, form: Object.fromEntries(new URLSearchParams(body)) };
    asked.push(tokenRequest);
    tokenServer.answer(response, tokenRequest);
  };
  const server = await listen((request, response) => void receive(request, response), {
    host: '127.0.0.1',
    port: 0,
    tls,
    publicHost: 'localhost',
  });
  closeAtEnd(() => server.close(0));
  tokenServer.url = `${server.url}/token`;
  return tokenServer;
}
