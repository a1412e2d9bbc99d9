/** The tokens that are kept in memory, without a token server. */
import { expect, test } from 'vitest';
import { createAccessTokens, type TokenParameters } from '#service/webhooks/access-tokens.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const using: TokenParameters = {
  parameters: { access_token_url: 'https://tokens.example/token', client_id: 'me', client_secret: 'secret' },
  client_auth: 'basic',
};

test('only the newest 5,000 tokens are kept; a token that was dropped is requested again', async () => {
  const clock = createManualClock();
  let requests = 0;
  const tokens = createAccessTokens({
    clock,
    fetch: async () => {
      requests += 1;
      const body = Buffer.from('{"access_token": "new", "expires_in": 3600}');
      return { status: 200, headers: {}, body, truncated: false };
    },
  });
  const expiresAtMs = clock.nowMs() + 86_400_000;
  for (let webhook = 0; webhook <= 5_000; webhook += 1)
    tokens.keep(`w${webhook}`, using, { token: `t${webhook}`, expiresAtMs });
  expect(await tokens.tokenOf('w1', using, { allowedNetworks: [], group: 'organisation' })).toBe('t1');
  expect(await tokens.tokenOf('w5000', using, { allowedNetworks: [], group: 'organisation' })).toBe('t5000');
  expect(requests).toBe(0);
  expect(await tokens.tokenOf('w0', using, { allowedNetworks: [], group: 'organisation' })).toBe('new');
  expect(requests).toBe(1);
});

test('a token is used with the parameters that it was obtained with, and with no others', async () => {
  const clock = createManualClock();
  const asked: string[] = [];
  const tokens = createAccessTokens({
    clock,
    fetch: async ({ body }) => {
      asked.push(String(body));
      return {
        status: 200,
        headers: {},
        body: Buffer.from('{"access_token": "new"}'),
        truncated: false,
      };
    },
  });
  tokens.keep('w', using, { token: 'old', expiresAtMs: clock.nowMs() + 3_600_000 });
  const changes = [{ client_secret: 'other' }, { client_id: 'other' }, { scope: 'other' }];
  for (const change of changes) {
    const changed = { ...using, parameters: { ...using.parameters, ...change } };
    expect(await tokens.tokenOf('w', changed, { allowedNetworks: [], group: 'organisation' })).toBe('new');
  }
  expect(asked).toHaveLength(3);
  expect(await tokens.tokenOf('w', using, { allowedNetworks: [], group: 'organisation' })).toBe('old');
});
