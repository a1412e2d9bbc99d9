/**
 * Which events a flow takes. Tags and test events decide membership: what was delivered of an event that is no member any
 * more is withdrawn. The status decides when: while it is another one, documents stay as they are.
 */

export interface FlowFilter {
  readonly testEvents: boolean;
  /** Each of these tags, with one of its values. */
  readonly tags: ReadonlyMap<string, readonly string[]>;
  /** Undefined: any. */
  readonly status: readonly string[] | undefined;
}

export function flowFilter(flow: {
  test_events: boolean;
  only: { tags: Readonly<Record<string, string | readonly string[]>>; status?: readonly string[] | undefined };
}): FlowFilter {
  const tags = Object.entries(flow.only.tags).map(([name, values]) => [name, [values].flat()] as const);
  return { testEvents: flow.test_events, tags: new Map(tags), status: flow.only.status };
}

/** An event may carry one tag several times. */
export function isTaken(
  event: { is_test?: boolean | undefined; tags: readonly { name: string; value: string }[] },
  { testEvents, tags }: FlowFilter,
): boolean {
  if (event.is_test === true && !testEvents) return false;
  return [...tags].every(([name, values]) => event.tags.some((tag) => tag.name === name && values.includes(tag.value)));
}
