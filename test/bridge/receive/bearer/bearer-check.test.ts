/** The check of bearer tokens against the one configured token. */
import { describe, expect, test } from 'vitest';
import { createBearerCheck } from '#bridge/receive/bearer/bearer-check.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import { testClock } from '../../parts.ts';

const token = 'only-this~one.is/taken+==';
const check = createBearerCheck({ type: 'token', token }, { ...testOutgoing(), clock: testClock() });

describe('one configured token', () => {
  test('is accepted as it is written', async () => {
    expect(await check(token)).toBe(true);
  });

  test.each([
    ['an empty one', ''],
    ['its beginning', token.slice(0, -1)],
    ['more than it', `${token}=`],
    ['it in other letters', token.toUpperCase()],
    ['another of its length', 'x'.repeat(token.length)],
  ])('refuses %s', async (_title, other) => {
    expect(await check(other)).toBe(false);
  });

  test.each([
    ['too short to be safe', 'fifteen-letters'],
    ['that no header carries as a token', 'a token with spaces in it'],
  ])('is refused as a setting when it is %s', (_title, given) => {
    const source = { name: 'main', base_url: 'https://service.example', api_key: 'key' };
    const parsed = bridgeSettings.safeParse({ sources: [{ ...source, bearer: { type: 'token', token: given } }] });
    expect(parsed.error?.issues).toMatchObject([{ path: ['sources', 0, 'bearer', 'token'] }]);
    expect(JSON.stringify(parsed.error)).not.toContain(given);
  });
});
