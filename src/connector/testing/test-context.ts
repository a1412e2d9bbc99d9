import { tmpdir } from 'node:os';
import { inspect } from 'node:util';
import type { ConnectorContext, ConnectorLog } from '#connector/connector.ts';
import { type Clock, systemClock } from '#platform/clock.ts';

/** A context as the bridge provides it; `lines` has each log line with its fields, errors and their causes included. */
export function testContext({ dataDir = tmpdir(), clock = systemClock }: { dataDir?: string; clock?: Clock } = {}) {
  const lines: string[] = [];
  const write: ConnectorLog['info'] = (message, fields) => {
    lines.push(
      fields === undefined
        ? message
        : `${message} ${inspect(fields, { depth: 12, maxArrayLength: Infinity, breakLength: Infinity })}`,
    );
  };
  const context: ConnectorContext = { dataDir, clock, log: { debug: write, info: write, warn: write, error: write } };
  return { context, lines };
}
