import type { FlowSettings } from '../settings.ts';

/**
 * Everything in a flow's settings that decides what its documents are, what they hold, and through which connector they
 * go. Two processes whose fingerprints differ would each undo what the other has delivered: only those that have the fingerprint in
 * force push.
 */
export function fingerprintOf(flow: FlowSettings): string {
  const {
    source,
    connector,
    documents,
    test_events,
    only,
    mapping,
    quantity_column = null,
    unit_price_column = null,
  } = flow;
  return JSON.stringify([
    source,
    connector,
    [...documents].sort(),
    test_events,
    only,
    mapping,
    quantity_column,
    unit_price_column,
  ]);
}
