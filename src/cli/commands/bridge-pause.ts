/** `bridge pause` and `bridge resume`: an operator stops a flow, and lets it deliver again. */
import { pauseFlow, resumeFlow } from '#bridge/flows/control-flows.ts';
import { timestampNow } from '#platform/clock.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';

export interface PauseOptions extends BridgeCommandOptions {
  reason?: string;
}

export interface ResumeOptions extends BridgeCommandOptions {
  agreeToWithdrawals?: boolean;
}

/** Pauses a flow: calls that have begun are finished, and no other begins. Feeds are still read; documents wait. */
export function runPause(options: PauseOptions, flow: string): Promise<number> {
  return withBridge(options, async ({ settings, database, clock, perform }) => {
    findFlow(settings, flow);
    const reason = options.reason ?? 'paused by an operator';
    await perform({ what: 'flow.pause', object: `flow ${flow}`, details: { reason } }, () =>
      pauseFlow(database, flow, reason, timestampNow(clock)),
    );
    print(options, { flow, paused: true, reason }, () => `${flow} is paused: ${reason}`);
    return 0;
  });
}

/** Lets a paused flow deliver again. */
export function runResume(options: ResumeOptions, flow: string): Promise<number> {
  return withBridge(options, async ({ settings, database, clock, perform }) => {
    findFlow(settings, flow);
    const agreed = { agreeToWithdrawals: options.agreeToWithdrawals === true };
    await perform({ what: 'flow.resume', object: `flow ${flow}`, details: agreed }, () =>
      resumeFlow(database, flow, agreed, timestampNow(clock)),
    );
    print(options, { flow, paused: false, ...agreed }, () => `${flow} delivers again.`);
    return 0;
  });
}
