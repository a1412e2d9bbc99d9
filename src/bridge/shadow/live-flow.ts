/** Which live flow a shadow is compared with. Pure. */
import type { FlowSettings } from '../settings.ts';

/** Returns the live flows of the shadow's source. */
export function liveFlowsOf(shadow: FlowSettings, flows: readonly FlowSettings[]): FlowSettings[] {
  return flows.filter(({ source, ...flow }) => !flow.shadow && source === shadow.source);
}

/** Returns the live flow that this shadow is compared with; undefined where its source has none. */
export function liveFlowOf(shadow: FlowSettings, flows: readonly FlowSettings[]): FlowSettings | undefined {
  const live = liveFlowsOf(shadow, flows);
  return shadow.beside === undefined ? live[0] : live.find(({ name }) => name === shadow.beside);
}

/**
 * Whether both certainly write to the same place: the same connector with the same settings. Other settings may mean
 * another ERP, or the same one by another road.
 */
export function hasSameErp(a: FlowSettings, b: FlowSettings): boolean {
  return JSON.stringify([a.connector, sorted(a.settings)]) === JSON.stringify([b.connector, sorted(b.settings)]);
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  return Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => [name, sorted(member)]);
}
