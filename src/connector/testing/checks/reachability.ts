/** What `check` says while the ERP is there, and while it is not. */
import { tmpdir } from 'node:os';
import { ConnectorError } from '#connector/errors.ts';
import type { Check } from '#connector/testing/check.ts';
import { Fault, fault } from '#connector/testing/finding.ts';
import type { Stage } from '#connector/testing/stage.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { within } from '#connector/testing/within.ts';
import { errorText } from '#platform/errors.ts';

const lookAt = 'check(): each line is { name, ok, message }; what goes wrong is a line with ok: false, not an error';

const openMs = 15_000;

export const reachable: Check = {
  name: 'check',
  guarantee: 'check() says in sentences that all is well, and changes no object',
  async run(stage) {
    const opened = await stage.open();
    const lines = await opened.check();
    if (lines.length === 0) fault({ expected: 'check() gives at least one line', seen: 'none', lookAt });
    for (const { name, ok, message } of lines)
      if (!ok || !name || !/\S\s+\S/.test(message ?? ''))
        fault({
          expected: 'each line has a name, ok: true and a sentence',
          seen: JSON.stringify({ name, ok, message }),
          lookAt,
        });
    const samples = stage.kinds.map((kind) => stage.sample(kind));
    for (const sample of samples) await stage.create(opened, [sample]);
    await opened.check();
    for (const sample of samples) await stage.expectHeld(sample, sample.versions[0], 'check()');
  },
};

export const away: Check = {
  name: 'ERP away',
  guarantee: 'while the ERP cannot be reached, check() says so and ends, and a start is no reason to pause the flow',
  async run(stage) {
    const opened = await stage.open();
    stage.needProxy(opened).die();
    const lines = await opened
      .check()
      .catch((error: unknown) =>
        fault({ expected: 'check() gives a line with ok: false', seen: `it threw: ${errorText(error)}`, lookAt }),
      );
    if (!lines.some(({ ok, message }) => !ok && message !== ''))
      fault({ expected: 'a line of check() with ok: false', seen: JSON.stringify(lines), lookAt });
    await expectOpens(stage);
  },
};

/** A session that is opened meanwhile either opens, or says that it will pass. */
async function expectOpens(stage: Stage): Promise<void> {
  const { target, connector, deadAddress } = stage;
  const { context } = testContext({ dataDir: target.dataDir?.() ?? tmpdir() });
  try {
    const opening = connector.open(connector.settings.parse(target.settings(deadAddress)), context);
    const session = await within(openMs, 'open()', 'open(): it need not reach the ERP', opening);
    await session.close();
  } catch (error) {
    stage.told.add('what open() threw', error);
    const willPass = error instanceof ConnectorError && error.type !== 'config' && error.type !== 'auth';
    if (error instanceof Fault) throw error;
    if (!willPass)
      fault({
        expected: 'open() opens, or throws TransientError, when the ERP is not there',
        seen: `it threw ${error instanceof Error ? error.name : typeof error}: ${errorText(error)}`,
        lookAt: 'open(): ConfigError and AuthError pause the flow until a person acts',
      });
  }
}
