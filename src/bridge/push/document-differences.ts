/** What differs between two states of a document, line by line, for a person. Pure. */

const linesMax = 200;
const valueCharactersMax = 200;

/**
 * `~ path: before -> after`, `+ path: after` and `- path: before`, in the order of the later state; paths as
 * `lines[0].cost`. `before` undefined: everything is new. At most 200 lines, the last of which says how many are left out.
 */
export function documentDifferences(before: unknown, after: unknown): string[] {
  const old = new Map(leavesOf(before, ''));
  const now = new Map(leavesOf(after, ''));
  const lines: string[] = [];
  for (const [path, value] of now) {
    const was = old.get(path);
    if (was === undefined) lines.push(`+ ${path}: ${shorten(value)}`);
    else if (was !== value) lines.push(`~ ${path}: ${shorten(was)} -> ${shorten(value)}`);
  }
  for (const [path, value] of old) if (!now.has(path)) lines.push(`- ${path}: ${shorten(value)}`);
  if (lines.length <= linesMax) return lines;
  return [...lines.slice(0, linesMax - 1), `and ${lines.length - linesMax + 1} more`];
}

/** Every value with its path; an empty object or list counts as a value. */
function leavesOf(value: unknown, path: string): [path: string, value: string][] {
  if (typeof value !== 'object' || value === null) return value === undefined ? [] : [[path, JSON.stringify(value)]];
  const inside = Array.isArray(value)
    ? value.map((one, index) => [`${path}[${index}]`, one] as const)
    : Object.entries(value).map(([name, one]) => [path === '' ? name : `${path}.${name}`, one] as const);
  if (inside.length === 0 && path !== '') return [[path, JSON.stringify(value)]];
  return inside.flatMap(([at, one]) => leavesOf(one, at));
}

function shorten(text: string): string {
  return text.length <= valueCharactersMax ? text : `${text.slice(0, valueCharactersMax)}…`;
}
