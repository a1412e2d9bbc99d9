/** Secrets stay where they are. */
import { inspect } from 'node:util';
import { secretsIn } from '#connector/settings.ts';
import type { Check } from '#connector/testing/check.ts';
import { fault, NotApplicable } from '#connector/testing/finding.ts';
import { operation } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';

/**
 * Runs last: it also searches what every other check has heard, so that each way to fail is searched for the secrets.
 */
export const secrets: Check = {
  name: 'secrets',
  guarantee: 'no secret of the settings is in a log line, an outcome, an error, an address or on the console',
  async run(stage) {
    const { connector, target, told, deadAddress } = stage;
    if (secretsIn(connector.settings.parse(target.settings(deadAddress))).length === 0)
      throw new NotApplicable('the settings hold no secret');
    await listening(told.add, () => provoke(stage));
    const leaks = told.leaks();
    if (leaks.length > 0)
      fault({
        expected: 'no secret of the settings is told to anybody, in whatever form',
        seen: leaks.slice(0, 5).join('\n          '),
        lookAt:
          'what is put into messages and addresses: reveal() is for the header or driver that needs it, and nothing else',
      });
  },
};

/** Makes the connector talk: when all is well, when it is refused, and when the ERP is away. */
async function provoke(stage: Stage): Promise<void> {
  const [kind] = stage.kinds;
  if (!kind) return;
  const opened = await stage.open();
  const write = async () => {
    const sample = stage.sample(kind);
    await opened.lookup([sample.versions[0]]).catch(() => undefined);
    await opened.write([operation('create', sample, sample.versions[0])]);
    await opened.check().catch(() => undefined);
  };
  await write();
  const { proxy } = opened;
  if (proxy && stage.target.proxy?.protocol === 'http')
    for (const status of [400, 401, 403, 500]) {
      proxy.steer(() => ({ status, body: 'refused' }));
      await write();
    }
  proxy?.die();
  if (proxy) await write();
}

/** Passes on, and keeps, what is written to the console meanwhile. */
async function listening(keep: (where: string, what: unknown) => void, run: () => Promise<void>): Promise<void> {
  const { stdout, stderr } = process;
  const undo: (() => void)[] = [];
  for (const stream of [stdout, stderr]) {
    const write = stream.write.bind(stream);
    const listening: typeof write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
      keep('the console', typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
      return write(chunk, ...(rest as []));
    };
    const had = Object.getOwnPropertyDescriptor(stream, 'write');
    stream.write = listening;
    undo.push(() => {
      if (had) Object.defineProperty(stream, 'write', had);
      else Reflect.deleteProperty(stream, 'write');
    });
  }
  // A test runner has a console of its own.
  for (const method of ['debug', 'error', 'info', 'log', 'warn'] as const) {
    const original = globalThis.console[method];
    globalThis.console[method] = (...given: unknown[]) => {
      for (const one of given) keep('the console', typeof one === 'string' ? one : inspect(one));
      original.apply(globalThis.console, given);
    };
    undo.push(() => {
      globalThis.console[method] = original;
    });
  }
  try {
    await run();
  } finally {
    for (const one of undo) one();
  }
}
