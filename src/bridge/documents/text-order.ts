/** Orders of text that are the same on every machine, whatever its language settings are. */

/** Compares by code units. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Compares by id; entries with an external id come first; then by external id and name. */
export function compareEntries(a: NamedEntry, b: NamedEntry): number {
  return (
    compareText(a.id, b.id) ||
    Number(a.external_id === undefined) - Number(b.external_id === undefined) ||
    compareText(a.external_id ?? '', b.external_id ?? '') ||
    compareText(a.name, b.name)
  );
}

interface NamedEntry {
  readonly id: string;
  readonly external_id?: string | undefined;
  readonly name: string;
}

/** Splits a label into numbers and other text: `1.10` is `1`, `.`, `10`. */
export function labelParts(label: string): readonly string[] {
  return label.match(/\d+|\D+/g) ?? [];
}

/** Compares labels: numbers by value and other text by code units, so that 1.2 comes before 1.10. */
export function compareLabels(a: readonly string[], b: readonly string[]): number {
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    const order = compareParts(a[index] ?? '', b[index] ?? '');
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compareParts(a: string, b: string): number {
  if (!isNumber(a) || !isNumber(b)) return compareText(a, b);
  const [x, y] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')];
  return x.length - y.length || compareText(x, y);
}

function isNumber(part: string): boolean {
  return part >= '0' && part < ':';
}
