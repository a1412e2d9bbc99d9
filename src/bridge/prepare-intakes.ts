/** What a command needs to work intakes without a daemon: the same parts, called directly. */
import type { Signals, Work } from '#platform/queue.ts';
import { prepareBridge } from './create-bridge.ts';
import { intakeDepsOf } from './intake/start-intake.ts';
import { startSupplierLists } from './pull/suppliers/start-supplier-lists.ts';
import { type BridgeDeps, lanes } from './settings/bridge-deps.ts';

/**
 * Prepares the configured intakes as the start of a process with the role `intake` does. `lists` reads the supplier list
 * of the sources, where it is due.
 */
export async function prepareIntakes(deps: Omit<BridgeDeps, 'signals' | 'role'>, opened: AsyncDisposableStack) {
  const { acquireLease, clients, intakes } = await prepareBridge({ ...deps, role: 'intake' }, opened);
  let pull: Work | undefined;
  const signals: Signals = {
    signal: async () => undefined,
    wakeHere: () => undefined,
    work: (lane, _options, work) => {
      if (lane === lanes.suppliers) pull = work;
    },
    close: async () => undefined,
  };
  const all = { ...deps, signals };
  const { due } = startSupplierLists(all, acquireLease, clients.clientOf);
  const lists = async (signal: AbortSignal) => {
    for (const source of await due()) await pull?.(source, signal);
  };
  const depsOf = intakeDepsOf(all, acquireLease, clients.clientOf);
  return intakes.map((intake) => ({ deps: depsOf(intake), lists }));
}
