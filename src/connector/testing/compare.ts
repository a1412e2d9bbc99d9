/** Compares what an ERP holds with the document that was written, by the rules of `HeldObject`. */

/** The values that were compared, so that a check can require that there were some. */
export interface Compared {
  texts: string[];
  decimals: string[];
}

/** Lists that `held()` shows completely or not at all; it may show other lists in part. */
const wholeLists = new Set(['lines', 'bids', 'contacts', 'options', 'files', 'rounds']);
/** The members that identify an entry of a list, in this order; an entry without any is identified by its index. */
const identities = ['lot', 'question', 'column', 'code', 'email', 'id', 'name'] as const;
/** Digits in these members are not numbers. */
const texts = new Set(['key', 'id', 'external_id', 'reference_id', 'name', 'lot', 'scenario', 'sourcing_request']);

/** The differences, one line each (none when the ERP holds the document), and the values that were compared. */
export function differencesOf(held: unknown, document: unknown): { differences: string[]; compared: Compared } {
  const differences: string[] = [];
  const compared: Compared = { texts: [], decimals: [] };
  compare(held, document, '', '');
  return { differences, compared };

  function compare(seen: unknown, expected: unknown, path: string, name: string): void {
    if (seen === undefined || (seen === null && expected === undefined)) return;
    if (Array.isArray(seen) && Array.isArray(expected)) compareLists(seen, expected, path, name);
    else if (isObject(seen) && isObject(expected))
      for (const [member, value] of Object.entries(seen))
        compare(value, expected[member], path === '' ? member : `${path}.${member}`, member);
    else if (!isSame(seen, expected, name))
      differences.push(`${path}: expected ${shown(expected)}, the ERP holds ${shown(seen)}`);
  }

  function isSame(seen: unknown, expected: unknown, name: string): boolean {
    if (typeof seen !== 'string' || typeof expected !== 'string') return Object.is(seen, expected);
    const isNumber = !texts.has(name) && decimal.test(expected);
    (isNumber ? compared.decimals : compared.texts).push(expected);
    return seen === expected || (isNumber && decimal.test(seen) && normalised(seen) === normalised(expected));
  }

  function compareLists(seen: readonly unknown[], expected: readonly unknown[], path: string, name: string): void {
    const missing = new Map(expected.map((entry, index) => [identityOf(entry, index, name), entry]));
    for (const [index, entry] of seen.entries()) {
      const identity = identityOf(entry, index, name);
      const wanted = missing.get(identity);
      missing.delete(identity);
      if (wanted === undefined)
        differences.push(`${path}[${identity}]: not in the document, the ERP holds ${shown(entry)}`);
      else compare(entry, wanted, `${path}[${identity}]`, name);
    }
    if (wholeLists.has(name))
      for (const identity of missing.keys()) differences.push(`${path}[${identity}]: missing in the ERP`);
  }
}

function identityOf(entry: unknown, index: number, list: string): string {
  if (isObject(entry) && list !== 'bids' && list !== 'rounds')
    for (const member of identities) {
      const value = entry[member];
      if (typeof value === 'string') return value;
      // An answer is identified by its question.
      if (isObject(value) && typeof value['id'] === 'string') return value['id'];
    }
  return String(index);
}

const decimal = /^-?\d+(\.\d+)?$/;

/** The number without zeros and signs that do not change its value. */
function normalised(number: string): string {
  const negative = number.startsWith('-');
  const [whole = '', fraction = ''] = number.replace('-', '').split('.');
  const digits = `${whole.replace(/^0+(?=\d)/, '')}.${fraction.replace(/(?<!0)0+$/, '')}`;
  return negative && /[1-9]/.test(digits) ? `-${digits}` : digits;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}
