/** What the doctor finds about the channels of alerts. */
import { type BridgeStatus, isChannelFailing } from '#bridge/status/status.ts';
import { channelWhy } from '../alert-words.ts';
import { type DoctorFinding, fail, ok } from './finding.ts';

/** One finding for each channel; none where none is configured, as monitoring may be done by metrics. */
export function findAlertChannels({ alertChannels }: Pick<BridgeStatus, 'alertChannels'>): DoctorFinding[] {
  return alertChannels.map((state) => {
    const name = `alerts: ${state.channel}`;
    if (!isChannelFailing(state)) return ok(name, channelWhy(state));
    const todo = `Correct its settings or the receiver, then: bridge alerts test ${state.channel}. Messages are tried for a day.`;
    return fail(name, channelWhy(state), todo);
  });
}
