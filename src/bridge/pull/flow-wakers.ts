import { type BridgeDeps, lanes } from '#bridge/settings/bridge-deps.ts';

/** Returns, for a source, the function that wakes its flows; it is called after a commit that marked documents. */
export function createFlowWakers({
  settings,
  signals,
}: Pick<BridgeDeps, 'settings' | 'signals'>): (source: string) => () => void {
  const flowsOf = Map.groupBy(settings.flows, ({ source }) => source);
  return (source) => {
    const flows = (flowsOf.get(source) ?? []).map(({ name }) => name);
    return () => void signals.signal(lanes.push, flows);
  };
}
