/** What the bridge makes of a connector's answers to `readBack`: one that cannot be trusted says nothing of its document. */
import { describe, expect, test } from 'vitest';
import { createConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import type { Session } from '#connector/connector.ts';
import type { DocumentOf } from '#connector/documents.ts';
import { RateLimited } from '#connector/errors.ts';
import { sampleOf } from '#connector/testing/sample-documents.ts';
import { createFakeErp } from '../../push/fake-erp.ts';

const secret = 'k7-Secret-91';
const deliveries = [0, 1].map((n) => {
  const [document] = sampleOf('award', n).versions;
  return { document: document as DocumentOf<'award'>, reference: `PO-${n}` };
});
const keys = deliveries.map(({ document }) => document.key);
const limit = { timeoutMs: 5_000, signal: new AbortController().signal };

function callsWith(readBack: (given: unknown) => unknown) {
  const secrets = createSecretRedactor({ password: secret });
  const session = { ...createFakeErp().session, readBack: async (given: unknown) => readBack(given) } as Session;
  return createConnectorCalls(session, { secrets });
}

const held = { status: 'held', reference: 'PO-0', fields: [{ name: 'total', expected: '1', held: '2' }] };

test('answers are passed on as they are', async () => {
  const answers = [
    { key: keys[0], ...held },
    { key: keys[1], status: 'missing' },
  ];
  expect(await callsWith(() => answers).readBack(deliveries, limit)).toEqual([
    { ...answers[0], equalValues: 0 },
    answers[1],
  ]);
});

test('values that are equal are counted, and not kept: each would have to be searched for secrets', async () => {
  const fields = [
    { name: 'title', expected: 'Bolts', held: 'Bolts' },
    { name: 'total', expected: '1', held: '2' },
  ];
  const answers = keys.map((key, index) => ({ key, ...held, fields, ...(index === 1 ? { equalValues: 40 } : {}) }));
  const [listed, counted] = await callsWith(() => answers).readBack(deliveries, limit);
  expect(listed).toMatchObject({ fields: [fields[1]], equalValues: 1 });
  expect(counted).toMatchObject({ fields: [fields[1]], equalValues: 41 });
});

test('two long texts that differ only at their ends stay two', async () => {
  const fields = [{ name: 'text', expected: `${'x'.repeat(50_000)}a`, held: `${'x'.repeat(50_000)}b` }];
  const answers = keys.map((key) => ({ key, ...held, fields }));
  expect(await callsWith(() => answers).readBack(deliveries, limit)).toMatchObject(answers);
});

describe('an answer', () => {
  test.each([
    ['of another document', { key: 'other', ...held }, 'answered for another document'],
    ['without a status', { key: keys[0] }, 'cannot be read (status: '],
    ['whose field is a number', { key: keys[0], ...held, fields: [{ name: 'a', held: 5 }] }, 'fields'],
    ['with a negative count', { key: keys[0], ...held, equalValues: -1 }, 'equalValues'],
    ['with a list of numbers', { key: keys[0], ...held, fields: [1] }, 'fields'],
    ['with too long a list', { key: keys[0], ...held, fields: Array(50_001).fill(held.fields[0]) }, 'fields'],
    ['that is missing in the list', undefined, 'cannot be read'],
    ['with a secret as its reference', { key: keys[0], ...held, reference: secret }, 'holds a secret'],
  ])('%s makes only its own document unclear', async (_what, answer, reason) => {
    const [first, second] = await callsWith(() => [answer, { key: keys[1], status: 'missing' }]).readBack(
      deliveries,
      limit,
    );
    expect(first).toMatchObject({ key: keys[0], status: 'unclear', reason: expect.stringContaining(reason) });
    expect(second).toEqual({ key: keys[1], status: 'missing' });
  });

  test('shows no secret of the settings', async () => {
    const fields = [{ name: `note ${secret}`, expected: `a ${secret}`, held: secret }];
    const answers = [
      { key: keys[0], ...held, fields, changed: { by: secret }, notCompared: [secret] },
      { key: keys[1], status: 'unclear', reason: `login ${secret} refused` },
    ];
    expect(JSON.stringify(await callsWith(() => answers).readBack(deliveries, limit))).not.toContain(secret);
  });
});

test.each([
  ['too few answers', [{ key: keys[0], status: 'missing' }], 'returned 1 answers for 2 documents'],
  ['no list', 'all is well', 'returned no list of answers for 2 documents'],
])('%s are an error, as nothing says which is whose', async (_what, answers, message) => {
  await expect(callsWith(() => answers).readBack(deliveries, limit)).rejects.toThrow(message);
});

test('a rate limit keeps the time for which the ERP asks, and not the secret in its words', async () => {
  const calls = callsWith(() => {
    throw new RateLimited(`${secret}: slow down`, { retryAfterMs: 7_000 });
  });
  const error = await calls.readBack(deliveries, limit).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RateLimited);
  expect(error).toMatchObject({ retryAfterMs: 7_000, message: expect.not.stringContaining(secret) });
});
