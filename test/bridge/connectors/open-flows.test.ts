import { tmpdir } from 'node:os';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { openFlows } from '#bridge/connectors/open-flows.ts';
import type { Operation } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { settingsOf } from '../parts.ts';

const odd = './test/bridge/push/odd-connector.ts';
const deps = { dataDir: tmpdir(), log: silentLogger, clock: systemClock };
const timeouts = { openMs: 50, closeMs: 50 };
const document = { kind: 'award', key: '1' } as Document;
const operation = { action: 'create', idempotencyKey: '1', contentHash: 'x', document } as Operation;
const signal = new AbortController().signal;

/** Opens a flow with these settings and a well-behaved flow, calls both, and closes them. */
async function open(settings: Record<string, unknown>, connector = odd) {
  await using opened = new AsyncDisposableStack();
  const flows = await openFlows(
    { ...deps, settings: settingsOf({}, [{ connector, settings }, { connector: odd }]) },
    opened,
    timeouts,
  );
  const written = await Promise.all(flows.map(({ session }) => session.write([operation], signal)));
  const checked = await Promise.all(flows.map(({ session }) => session.check()));
  return { flows, written, checked };
}

const well = [{ status: 'created', reference: '1' }];

test.each(['fails', 'never', 'throws at once'])(
  'a connector whose opening ends like this: %s: does not affect other flows, and its documents wait',
  async (opens) => {
    const { written, checked } = await open({ opens });
    expect(written[1]).toEqual(well);
    expect(written[0]).toMatchObject([
      { status: 'retry', error: { type: 'transient', message: expect.stringContaining('cannot be opened') } },
    ]);
    expect(checked[0]).toMatchObject([{ ok: false }]);
  },
);

test('a connector that could not be opened is opened with its next call', async () => {
  const { written, checked } = await open({ opens: 'at the second time' });
  expect(written).toEqual([well, well]);
  expect(checked[0]).toMatchObject([{ ok: true }]);
});

test('settings that turn out to be wrong when a connector is opened later pause the flow', async () => {
  const { written } = await open({ opens: 'wrong settings at the second time' });
  expect(written[0]).toMatchObject([
    { status: 'retry', error: { type: 'config', message: expect.stringContaining('The folder is missing') } },
  ]);
});

test.each([
  ['when its settings are read', { opens: 'refuses', password: 'hunter/2two' }],
  ['when it is opened', { opens: 'repeats', password: 'hunter/2two' }],
])('a secret that a connector repeats %s is not in the error that stops the start', async (_what, settings) => {
  const error: unknown = await open(settings).catch((thrown: unknown) => thrown);
  const shown = inspect(error, { depth: 20 });
  expect(shown).toContain('The password');
  expect(shown).not.toContain('hunter');
});

test('a secret that a connector repeats is not in the results of its check', async () => {
  for (const checks of ['repeats', 'throws it']) {
    const { checked } = await open({ checks, password: 'hunter/2two' });
    expect(JSON.stringify(checked[0])).toContain('The password');
    expect(JSON.stringify(checked[0])).not.toContain('hunter');
  }
});

test.each([
  ['never answers', { checks: 'never' }],
  ['throws', { checks: 'throws' }],
])('a check that %s has a failed result in time', async (_what, settings) => {
  const { checked } = await open(settings);
  expect(checked).toMatchObject([
    [{ ok: false, message: expect.stringContaining('cannot be checked') }],
    [{ ok: true }],
  ]);
});

test.each(['never', 'throws'])(
  'a connector whose closing ends like this: %s: does not keep the process from ending',
  async (closes) => {
    await expect(open({ closes })).resolves.toBeDefined();
  },
);

test.each<[string, Record<string, unknown>, string, RegExp]>([
  ['unknown settings', { opnes: 'well' }, odd, /The settings of flow "flow-0"/],
  [
    'settings that the connector finds wrong when it is opened',
    { opens: 'wrong settings' },
    odd,
    /The folder is missing/,
  ],
  [
    'an unknown name',
    {},
    'no-such-connector',
    /The connector "no-such-connector" cannot be loaded: it is neither a folder under connectors/,
  ],
])('%s: the start fails with an error that says so', async (_what, settings, connector, message) => {
  await expect(open(settings, connector)).rejects.toThrow(message);
});

test('one error names all wrong settings with their paths, and none of their values', async () => {
  const settings = { opnes: 'well', checks: 'hunter2', password: 4_711 };
  const error: unknown = await open(settings).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    code: 'invalid',
    message: [
      `The settings of flow "flow-0" are not valid for its connector "${odd}":`,
      '  bridge.flows[0].settings.checks must be one of well, never, throws, repeats, throws it',
      '  bridge.flows[0].settings.password must be a string',
      '  bridge.flows[0].settings.opnes is not a known setting',
    ].join('\n'),
  });
  expect(inspect(error, { depth: 20 })).not.toMatch(/hunter2|4711/);
});

test('what a variable of the environment has given is text, and a number where the connector wants one', async () => {
  const settings = { base_url: 'http://127.0.0.1:1', concurrency: '2' };
  const { flows } = await open(settings, 'http');
  expect(flows[0]?.connector.capabilities.requestsAtOnce).toBe(2);
  await expect(open({ ...settings, concurrency: 'two' }, 'http')).rejects.toThrow('concurrency must be a number');
});

/** A connector in plain JavaScript whose settings are its capabilities. */
const adjustable = `data:text/javascript,${encodeURIComponent(`export default {
  name: 'adjustable',
  settings: { _zod: {}, safeParse: (data) => ({ success: true, data }) },
  capabilities: { kinds: ['award'], batchMax: 10, timeoutMs: 1_000, lateEffectMs: 0, idempotency: 'key' },
  capabilitiesWith: (settings) => settings,
  open: async () => ({ check: async () => [], write: async () => [], lookup: async () => [], close: async () => {} }),
}`)}`;

test('capabilities that the settings change are changed for that flow only', async () => {
  await using opened = new AsyncDisposableStack();
  const flows = [
    { connector: adjustable, settings: { batchMax: 3, lateEffectMs: 5_000 } },
    { connector: adjustable, settings: {} },
  ];
  const [first, second] = await openFlows({ ...deps, settings: settingsOf({}, flows) }, opened);
  const declared = { kinds: ['award'], batchMax: 10, timeoutMs: 1_000, lateEffectMs: 0, idempotency: 'key' };
  expect(first?.connector.capabilities).toEqual({ ...declared, batchMax: 3, lateEffectMs: 5_000 });
  expect(second?.connector.capabilities).toEqual(declared);
});

test('the start fails when the settings lead to capabilities with which nothing could be written', async () => {
  await expect(open({ batchMax: 0 }, adjustable)).rejects.toThrow('capabilities.batchMax');
});

test('the start fails when the settings of a connector are no schema of zod 4', async () => {
  const declared = `{ kinds: ['award'], batchMax: 1, timeoutMs: 1, lateEffectMs: 0 }`;
  const old = `export default { settings: {}, capabilities: ${declared}, open() {} }`;
  await expect(open({}, `data:text/javascript,${encodeURIComponent(old)}`)).rejects.toThrow(
    'must be a schema of zod 4',
  );
});

test('the start fails when a flow has documents that its connector does not take', async () => {
  await using opened = new AsyncDisposableStack();
  const settings = settingsOf({}, [{ connector: odd, documents: ['award', 'file'] }]);
  await expect(openFlows({ ...deps, settings }, opened)).rejects.toThrow(/takes no file documents/);
});

test.each([
  ['batchMax', 0],
  ['concurrency', 0],
  ['timeoutMs', -1],
  ['timeoutMs', 1_000.5],
  ['timeoutMs', 2 ** 31],
  ['lateEffectMs', 0.5],
  ['lateEffectMs', 2 ** 31],
])('the start fails when a connector declares capabilities that cannot work: %s %d', async (name, value) => {
  const declared = { kinds: ['award'], batchMax: 1, timeoutMs: 1, lateEffectMs: 0, [name]: value };
  const code = `export default { name: 'x', settings: {}, capabilities: ${JSON.stringify(declared)}, open() {} }`;
  await expect(open({}, `data:text/javascript,${encodeURIComponent(code)}`)).rejects.toThrow(`capabilities.${name}`);
});
