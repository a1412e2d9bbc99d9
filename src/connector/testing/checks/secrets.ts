/** Secrets do not leave the connector in any text. */
import { inspect } from 'node:util';
import { secretsIn } from '#connector/settings.ts';
import type { Check } from '#connector/testing/check.ts';
import { failCheck, NotApplicable } from '#connector/testing/finding.ts';
import { operation } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';

/**
 * Runs last: it also reports secrets that the leak detector found during the other checks, which provoke many failures.
 */
export const secrets: Check = {
  name: 'secrets',
  guarantee: 'no secret of the settings appears in a log line, an outcome, an error, an address or on the console',
  async run(stage) {
    const { connector, target, leakDetector, deadAddress } = stage;
    if (secretsIn(connector.settings.parse(target.settings(deadAddress))).length === 0)
      throw new NotApplicable('the settings have no secret');
    await watchConsole(leakDetector.add, () => provoke(stage));
    const leaks = leakDetector.leaks();
    if (leaks.length > 0)
      failCheck({
        expected: 'no secret of the settings is shown, in any encoding',
        seen: leaks.slice(0, 5).join('\n          '),
        lookAt: 'what messages and addresses contain: reveal() is only for the header or driver that needs it',
      });
  },
};

/** Provokes texts of the connector: in normal operation, when the ERP refuses requests, and when it is unreachable. */
async function provoke(stage: Stage): Promise<void> {
  const [kind] = stage.kinds;
  if (!kind) return;
  const session = await stage.open();
  const write = async () => {
    const sample = stage.sample(kind);
    await session.lookup([sample.versions[0]]).catch(() => undefined);
    await session.write([operation('create', sample, sample.versions[0])]);
    await session.check().catch(() => undefined);
  };
  await write();
  const { proxy } = session;
  if (proxy && stage.target.proxy?.protocol === 'http')
    for (const status of [400, 401, 403, 500]) {
      proxy.inject(() => ({ status, body: 'refused' }));
      await write();
    }
  proxy?.cutOff();
  if (proxy) await write();
}

/** Passes everything that is written to the console during `run` to `keep`, and on to the console. */
async function watchConsole(keep: (where: string, what: unknown) => void, run: () => Promise<void>): Promise<void> {
  const { stdout, stderr } = process;
  const undo: (() => void)[] = [];
  for (const stream of [stdout, stderr]) {
    const write = stream.write.bind(stream);
    const watched: typeof write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
      keep('the console', typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
      return write(chunk, ...(rest as []));
    };
    const original = Object.getOwnPropertyDescriptor(stream, 'write');
    stream.write = watched;
    undo.push(() => {
      if (original) Object.defineProperty(stream, 'write', original);
      else Reflect.deleteProperty(stream, 'write');
    });
  }
  // A test runner replaces the console object, which then does not write to these streams.
  for (const method of ['debug', 'error', 'info', 'log', 'warn'] as const) {
    const original = globalThis.console[method];
    globalThis.console[method] = (...given: unknown[]) => {
      for (const value of given) keep('the console', typeof value === 'string' ? value : inspect(value));
      original.apply(globalThis.console, given);
    };
    undo.push(() => {
      globalThis.console[method] = original;
    });
  }
  try {
    await run();
  } finally {
    for (const restore of undo) restore();
  }
}
