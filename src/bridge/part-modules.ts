/**
 * The modules of the bridge's parts. A process loads those of its own role where it starts them: a receiver does not hold
 * those of the others.
 */
const importers = {
  alerts: () => import('./alerts/start-alerts.ts'),
  intake: () => import('./intake/start-intake.ts'),
  openFlows: () => import('./flows/open-flows.ts'),
  openIntakes: () => import('./intake/open-intakes.ts'),
  pull: () => import('./pull/start-pull.ts'),
  push: () => import('./push/start-push.ts'),
  receive: () => import('./receive/start-receive.ts'),
  reconcile: () => import('./reconcile/start-reconcile.ts'),
  registerFlows: () => import('./flows/register-flows.ts'),
  registerIntakes: () => import('./intake/register-intakes.ts'),
  samples: () => import('./status/samples.ts'),
  supplierLists: () => import('./pull/suppliers/start-supplier-lists.ts'),
};

type Part = keyof typeof importers;
type ModuleOf<Of extends Part> = Awaited<ReturnType<(typeof importers)[Of]>>;

const loaded = new Map<Part, Promise<unknown>>();

/** Loads a module, or returns it at once when it was loaded. */
export function loadPart<Of extends Part>(part: Of): Promise<ModuleOf<Of>> {
  const loading = loaded.get(part) ?? importers[part]();
  loaded.set(part, loading);
  return loading as Promise<ModuleOf<Of>>;
}

/** Loads all of them, for a caller that must not wait for a disk when it starts a bridge. */
export async function loadAllParts(): Promise<void> {
  for (const part of Object.keys(importers) as Part[]) await loadPart(part);
}
