/**
 * Which events a flow takes. Tags and the test mark decide whether the flow wants an event: when it does not want the
 * event any more, what was delivered of it is withdrawn. The status decides when: while the event has another status,
 * its documents are on hold and stay as they are.
 */

import { composed } from '#connector/human-text.ts';

export interface FlowFilter {
  readonly testEvents: boolean;
  /** An event must carry each of these tags, with one of its values. */
  readonly tags: ReadonlyMap<string, readonly string[]>;
  /** The statuses that the flow takes; undefined: any. */
  readonly status: readonly string[] | undefined;
}

/** Returns the filter of a flow's settings. */
export function flowFilter(flow: {
  test_events: boolean;
  only: { tags: Readonly<Record<string, string | readonly string[]>>; status?: readonly string[] | undefined };
}): FlowFilter {
  const tags = Object.entries(flow.only.tags).map(
    ([name, values]) => [composed(name), [values].flat().map(composed)] as const,
  );
  return { testEvents: flow.test_events, tags: new Map(tags), status: flow.only.status };
}

/** Whether the flow wants the event. An event may carry one tag several times. */
export function isTaken(
  event: { is_test?: boolean | undefined; tags: readonly { name: string; value: string }[] },
  { testEvents, tags }: FlowFilter,
): boolean {
  if (event.is_test === true && !testEvents) return false;
  return [...tags].every(([name, values]) =>
    event.tags.some((tag) => composed(tag.name) === name && values.includes(composed(tag.value))),
  );
}
