/**
 * Loads @peculiar/x509, which is needed only on the rare start that makes a certificate. Its container library refuses
 * to load without the decorator metadata functions on `Reflect`; it calls three of them, and those are put there.
 */
import type * as X509Library from '@peculiar/x509';

type MetadataReflect = typeof Reflect & {
  getMetadata?: (key: unknown, target: object) => unknown;
  getOwnMetadata?: (key: unknown, target: object) => unknown;
  defineMetadata?: (key: unknown, value: unknown, target: object) => void;
};

/** The library; rejects only when the package is not installed. */
export function loadX509(): Promise<typeof X509Library> {
  addReflectMetadata(Reflect);
  return import('@peculiar/x509');
}

function addReflectMetadata(reflect: MetadataReflect): void {
  // A complete implementation that is there already stays.
  if (reflect.getMetadata !== undefined) return;
  const byTarget = new WeakMap<object, Map<unknown, unknown>>();
  reflect.defineMetadata = (key, value, target) => {
    const entries = byTarget.get(target) ?? new Map<unknown, unknown>();
    byTarget.set(target, entries.set(key, value));
  };
  reflect.getOwnMetadata = (key, target) => byTarget.get(target)?.get(key);
  reflect.getMetadata = (key, target) => {
    for (let holder: object | null = target; holder !== null; holder = Reflect.getPrototypeOf(holder))
      if (byTarget.get(holder)?.has(key)) return byTarget.get(holder)?.get(key);
    return undefined;
  };
}
