/** What `check` reports while the ERP is reachable, and while it is not. */
import { tmpdir } from 'node:os';
import { ConnectorError } from '#connector/errors.ts';
import type { Check } from '#connector/testing/check.ts';
import { endsWithin } from '#connector/testing/ends-within.ts';
import { CheckFailure, failCheck } from '#connector/testing/finding.ts';
import type { Stage } from '#connector/testing/stage.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { errorText } from '#platform/errors.ts';

const lookAt = 'check(): each line is { name, ok, message }; a problem is a line with ok: false, not an error';

const openMs = 15_000;

export const reachable: Check = {
  name: 'check',
  guarantee: 'check() reports in sentences that all is well, and changes no object',
  async run(stage) {
    const session = await stage.open();
    const lines = await session.check();
    if (lines.length === 0) failCheck({ expected: 'check() returns at least one line', seen: 'none', lookAt });
    for (const { name, ok, message } of lines)
      if (!ok || !name || !/\S\s+\S/.test(message ?? ''))
        failCheck({
          expected: 'each line has a name, ok: true and a sentence',
          seen: JSON.stringify({ name, ok, message }),
          lookAt,
        });
    const samples = stage.kinds.map((kind) => stage.sample(kind));
    for (const sample of samples) await stage.create(session, [sample]);
    await session.check();
    for (const sample of samples) await stage.expectHeld(sample, sample.versions[0], 'check()');
  },
};

export const away: Check = {
  name: 'ERP away',
  guarantee: 'while the ERP is unreachable, check() reports it and ends, and opening a session does not pause the flow',
  async run(stage) {
    const session = await stage.open();
    stage.needProxy(session).cutOff();
    const lines = await session
      .check()
      .catch((error: unknown) =>
        failCheck({ expected: 'check() returns a line with ok: false', seen: `it threw: ${errorText(error)}`, lookAt }),
      );
    if (!lines.some(({ ok, message }) => !ok && message !== ''))
      failCheck({ expected: 'a line of check() with ok: false', seen: JSON.stringify(lines), lookAt });
    await expectOpens(stage);
  },
};

/** Opening a session while the ERP is unreachable either works, or fails with an error that will pass. */
async function expectOpens(stage: Stage): Promise<void> {
  const { target, connector, deadAddress } = stage;
  const { context } = testContext({ dataDir: target.dataDir?.() ?? tmpdir() });
  try {
    const opening = connector.open(connector.settings.parse(target.settings(deadAddress)), context);
    const session = await endsWithin(openMs, 'open()', 'open(): it must not wait for the ERP', opening);
    await session.close();
  } catch (error) {
    stage.leakDetector.add('what open() threw', error);
    const willPass = error instanceof ConnectorError && error.type !== 'config' && error.type !== 'auth';
    if (error instanceof CheckFailure) throw error;
    if (!willPass)
      failCheck({
        expected: 'open() opens, or throws TransientError, when the ERP is unreachable',
        seen: `it threw ${error instanceof Error ? error.name : typeof error}: ${errorText(error)}`,
        lookAt: 'open(): ConfigError and AuthError pause the flow until an operator acts',
      });
  }
}
