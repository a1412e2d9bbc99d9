/**
 * All that may be an e-mail address in a text, however the text has it: for whoever has hashes of addresses, and not the
 * addresses. Whatever `Person.isIn` finds in a text is among them; most of the others are no addresses of anybody.
 */

/** An address has at most so many characters. */
const addressMax = 254;
/** How many beginnings and ends are tried on each side of an `@`, the nearest first. */
const boundsMax = 16;

/** Yields the candidates in lower case; one may come more than once. */
export function* addressesIn(text: string): Generator<string> {
  if (!/@|%40|\\u0040/i.test(text)) return;
  for (const form of formsOf(text.toLowerCase()))
    for (let at = form.indexOf('@'); at !== -1; at = form.indexOf('@', at + 1)) yield* addressesAt(form, at);
}

/** As it stands; without the escapes of JSON, also of JSON within JSON; and without those of URLs. */
function formsOf(text: string): Set<string> {
  const forms = [text];
  if (text.includes('\\')) {
    const once = withoutJsonEscapes(text);
    forms.push(once, withoutJsonEscapes(once));
  }
  return new Set(forms.flatMap((form) => (form.includes('%') ? [form, withoutUrlEscapes(form)] : [form])));
}

const escaped: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

function withoutJsonEscapes(text: string): string {
  return text.replaceAll(
    /\\(?:u([0-9a-f]{4})|(.))/gs,
    (_all, unit: string | undefined, character: string | undefined) =>
      unit === undefined
        ? (escaped[character ?? ''] ?? character ?? '')
        : String.fromCharCode(Number.parseInt(unit, 16)).toLowerCase(),
  );
}

function withoutUrlEscapes(text: string): string {
  return text.replaceAll(/(?:%[0-9a-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8').toLowerCase(),
  );
}

/** No address goes on before its beginning, or after its end. */
const beforeBeginning = /[a-z0-9._%+-]/;
const afterEnd = /^(?:[a-z0-9_-]|\.[a-z0-9])/;

function* addressesAt(text: string, at: number): Generator<string> {
  const beginnings: number[] = [];
  for (let from = at - 1; from >= 0 && at - from < addressMax && isInside(text[from]); from -= 1) {
    if (from > 0 && beforeBeginning.test(text[from - 1] ?? '')) continue;
    beginnings.push(from);
    if (beginnings.length === boundsMax) break;
  }
  if (beginnings.length === 0) return;
  let ends = 0;
  for (let to = at + 1; to < text.length && to - at < addressMax && isInside(text[to]); to += 1) {
    if (afterEnd.test(text.slice(to + 1, to + 3))) continue;
    for (const from of beginnings) if (to + 1 - from <= addressMax) yield text.slice(from, to + 1);
    ends += 1;
    if (ends === boundsMax) return;
  }
}

function isInside(character: string | undefined): boolean {
  return character !== undefined && character !== '@' && !/\s/.test(character);
}
