import { documentsVersion } from '#bridge/documents/documents-version.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';

/**
 * Returns the fingerprint of a flow's settings: all settings that decide which documents the flow has, what they
 * contain, and through which connector they go; with the version of what makes the documents. Two processes with different fingerprints would each undo what the
 * other delivers, so only processes with the fingerprint that was registered last push the flow.
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
    quantity_decimals,
    time_zone = null,
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
    quantity_decimals,
    time_zone,
    documentsVersion,
  ]);
}
