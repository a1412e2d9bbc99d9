/**
 * `mcp`: lets an assistant look at the bridge, by the Model Context Protocol over standard input and output. Standard
 * output carries the protocol alone; the log and errors go to standard error.
 */
import { hostname } from 'node:os';
import { finished } from 'node:stream/promises';
import type { ViewerRole } from '#console/access/viewer.ts';
import { createAssistant } from '#console/assistant/create-assistant.ts';
import { machineUser } from '#platform/audit-log.ts';
import { AppError } from '#platform/errors.ts';
import { loadOptional } from '#platform/optional-package.ts';
import { type BridgeCommandOptions, findFlow, requireSource, withBridge } from '../bridge-command.ts';
import { createConsoleDoctor } from '../console-doctor.ts';

export interface McpOptions extends BridgeCommandOptions {
  role: ViewerRole;
  flows?: string[];
  allowChanges?: boolean;
}

const refusal = 'This server only reads: start it with --role operator --allow-changes.';

/** Serves until standard input ends; a call that has begun is finished before. The author is the user of this machine. */
export async function runMcp(options: McpOptions): Promise<number> {
  const { role, flows = 'all', allowChanges = false } = options;
  if (allowChanges && role !== 'operator')
    throw new AppError('invalid', `--allow-changes needs --role operator: the role ${role} changes nothing.`);
  const { serveStdio } = await loadOptional(
    'assistant',
    'An assistant',
    () => import('@modelcontextprotocol/server/stdio'),
  );
  return withBridge(options, async (command) => {
    const { installation, settings, database, clock, signal } = command;
    requireSource(settings);
    if (flows !== 'all') for (const flow of flows) findFlow(settings, flow);
    const assistant = await createAssistant({
      settings,
      fromEnvironment: installation.configuration.fromEnvironment,
      database,
      reading: await installation.reading(),
      clock,
      log: installation.log,
      dataDir: installation.dataDir,
      fetch: installation.outgoing.fetch,
      secrets: installation.secrets,
      clientOf: command.clientOf,
      doctor: createConsoleDoctor(installation, settings, command.clientOf),
    });
    const name = machineUser();
    const person = { kind: 'cli', name, from: hostname(), role, flows, mayChange: allowChanges, refusal } as const;
    const stop = AbortSignal.any([signal, installation.gone]);
    const served = serveStdio(() => assistant.serverFor(person), {
      onerror: (err) => installation.log.warn({ err }, 'a message of the assistant could not be answered'),
    });
    await finished(process.stdin, { writable: false, signal: stop }).catch(() => undefined);
    await assistant.idle();
    await served.close();
    installation.gone.throwIfAborted();
    return 0;
  });
}
