/** Compares what an ERP holds with the document that it was given, as `HeldObject` says. */

/** What was compared on the way, so that a test can demand that something was. */
export interface Compared {
  texts: string[];
  decimals: string[];
}

/** Lists that are shown as a whole or not at all, and by what their members are told apart; others may be shown in part. */
const wholeLists = new Set(['lines', 'bids', 'contacts', 'options', 'files', 'rounds']);
/** What a member of a list is known by; without any it is known by its place. */
const identities = ['lot', 'question', 'column', 'code', 'email', 'id', 'name'] as const;
/** Digits in these are no number. */
const texts = new Set(['key', 'id', 'external_id', 'reference_id', 'name', 'lot', 'scenario', 'sourcing_request']);

/** What differs, a line each; nothing when the ERP holds the document. */
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
    return seen === expected || (isNumber && decimal.test(seen) && plain(seen) === plain(expected));
  }

  function compareLists(seen: readonly unknown[], expected: readonly unknown[], path: string, name: string): void {
    const missing = new Map(expected.map((one, index) => [identityOf(one, index, name), one]));
    for (const [index, one] of seen.entries()) {
      const identity = identityOf(one, index, name);
      const wanted = missing.get(identity);
      missing.delete(identity);
      if (wanted === undefined)
        differences.push(`${path}[${identity}]: not in the document, the ERP holds ${shown(one)}`);
      else compare(one, wanted, `${path}[${identity}]`, name);
    }
    if (wholeLists.has(name))
      for (const identity of missing.keys()) differences.push(`${path}[${identity}]: missing in the ERP`);
  }
}

function identityOf(one: unknown, index: number, list: string): string {
  if (isObject(one) && list !== 'bids' && list !== 'rounds')
    for (const member of identities) {
      const value = one[member];
      if (typeof value === 'string') return value;
      // An answer is known by its question.
      if (isObject(value) && typeof value['id'] === 'string') return value['id'];
    }
  return String(index);
}

const decimal = /^-?\d+(\.\d+)?$/;

/** Without what changes nothing of its value. */
function plain(number: string): string {
  const negative = number.startsWith('-');
  const [whole = '', fraction = ''] = number.replace('-', '').split('.');
  const digits = `${whole.replace(/^0+(?=\d)/, '')}.${fraction.replace(/0+$/, '')}`;
  return negative && /[1-9]/.test(digits) ? `-${digits}` : digits;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}
