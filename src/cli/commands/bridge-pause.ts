/** `bridge pause` and `bridge resume`: an operator stops a flow or an intake, and lets it go on. */
import { pauseIntake, resumeIntake } from '#bridge/intake/control-intakes.ts';
import { pauseFlow, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { timestampNow } from '#platform/clock.ts';
import { type BridgeCommandOptions, isIntake, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';

export interface PauseOptions extends BridgeCommandOptions {
  reason?: string;
}

export interface ResumeOptions extends BridgeCommandOptions {
  agree?: boolean;
}

/**
 * Pauses a flow: calls that have begun are finished, and no other begins. Feeds are still read; documents wait. Of an
 * intake nothing more is submitted; its ERP is still read.
 */
export function runPause(options: PauseOptions, flow: string): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock, perform }) => {
      const what = isIntake(settings, flow) ? 'intake' : 'flow';
      const reason = options.reason ?? 'paused by an operator';
      await perform({ what: `${what}.pause`, object: `${what} ${flow}`, details: { reason } }, () =>
        (what === 'intake' ? pauseIntake : pauseFlow)(database, flow, reason, timestampNow(clock)),
      );
      print(options, { [what]: flow, paused: true, reason }, () => `${flow} is paused: ${reason}`);
      return 0;
    },
    { withoutSecrets: true },
  );
}

/** Lets a paused flow or intake go on. */
export function runResume(options: ResumeOptions, flow: string): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock, perform }) => {
      if (isIntake(settings, flow)) {
        const agreedToArchive = { agreeToArchive: options.agree === true };
        await perform({ what: 'intake.resume', object: `intake ${flow}`, details: agreedToArchive }, () =>
          resumeIntake(database, flow, agreedToArchive, timestampNow(clock)),
        );
        print(options, { intake: flow, paused: false, ...agreedToArchive }, () => `${flow} sends again.`);
        return 0;
      }
      const agreed = { agreeToWithdrawals: options.agree === true };
      await perform({ what: 'flow.resume', object: `flow ${flow}`, details: agreed }, () =>
        resumeFlow(database, flow, agreed, timestampNow(clock)),
      );
      print(options, { flow, paused: false, ...agreed }, () => `${flow} delivers again.`);
      return 0;
    },
    { withoutSecrets: true },
  );
}
