/** The source's notifications: one for each changed feed. Some are lost, sent twice, late, or forged. */
import { createHmac } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import { timestampFromMicros } from '#contract/timestamp.ts';
import { feedTriggers, jobTrigger } from '#contract/webhook.ts';
import type { BridgeHost } from './bridge-host.ts';
import { isListening, sendTo } from './simulated-network.ts';
import { feedsOf, partOf, type SimulatedSource, type Simulation, signingKey } from './simulation.ts';

const triesMax = 60;
const tryAgainMs = 5_000;

/**
 * Sends a notification for each commit. `announce` announces each feed once more, `announceJob` the end of a job, which
 * nothing repeats when it is lost.
 */
export function sendNotifications(
  { world, accepted, forged, underway }: Simulation,
  { name, scenario, source }: SimulatedSource,
  hosts: readonly BridgeHost[],
): { announce: () => void; announceJob: (job: string, status: string) => void } {
  const { lost, twice, lateMs, forged: forgeries } = scenario.notifications;
  const random = world.random.of(partOf(name, 'notifications'));
  const wanted = new Set(feedsOf(scenario));
  let count = 0;
  /** Keeps the notifications of two sources apart. */
  const origin = name === 'main' ? {} : { source: name };

  const send = (body: string, key: string, triesLeft: number) => {
    const receivers = hosts.flatMap(({ process }) => (process && isListening(process) ? [process] : []));
    const again = () => {
      if (triesLeft > 0) world.after(tryAgainMs, () => send(body, key, triesLeft - 1));
    };
    if (receivers.length === 0) {
      again();
      return;
    }
    const signature = `hmac-sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
    const request = { path: `/webhooks/${name}`, headers: { 'x-signature': signature }, body };
    let answered = false;
    sendTo(random.pick(receivers), request, (status) => {
      answered = true;
      world.log('source', `notification answered with ${status}`);
      const good = status >= 200 && status < 300;
      if (key !== signingKey) {
        if (good) world.violate('a forged notification is refused', `answered with ${status}`);
      } else if (good) {
        accepted.push(body);
        underway.delete(body);
      } else again();
    });
    world.after(15_000, () => {
      if (!answered && key === signingKey) again();
    });
  };

  const notify = (trigger: string, payload: object) => {
    count += 1;
    const body = JSON.stringify({
      trigger,
      timestamp: timestampFromMicros(world.nowMicros),
      payload: { ...payload, sourcing_event_name: `change ${count}`, ...origin },
    });
    if (world.chaos && random.chance(forgeries)) {
      const changed = body.replace('change', 'forgery');
      forged.push(changed);
      world.after(10, () => send(changed, 'another key', 0));
    }
    if (world.chaos && random.chance(lost)) return;
    underway.add(body);
    const times = random.chance(twice) ? 2 : 1;
    for (let copy = 0; copy < times; copy += 1)
      world.after(10 + random.fraction() * lateMs, () => send(body, signingKey, triesMax));
  };
  const announce = (feeds: readonly FeedName[], event: string | undefined) => {
    for (const feed of feeds) notify(feedTriggers[feed], { sourcing_event: event });
  };
  source.onCommit = (feeds, writes) =>
    announce(
      feeds.filter((feed) => wanted.has(feed)),
      writes[0]?.id,
    );
  return {
    announce: () => announce([...wanted], undefined),
    announceJob: (job, status) => notify(jobTrigger, { job, status }),
  };
}
