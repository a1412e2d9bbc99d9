/** The differences between two states of a document, one line each, for a person to read. Pure. */

const linesMax = 200;
const valueCharactersMax = 200;

/**
 * Returns lines of the forms `~ path: before -> after`, `+ path: after` and `- path: before`. Paths look like
 * `lines[0].cost`. Changed and new values come in the order of the later state, and removed values after them. When
 * `before` is undefined, everything is new. There are at most 200 lines, the last of which then says how many are left
 * out.
 */
export function documentDifferences(before: unknown, after: unknown): string[] {
  const earlier = new Map(leavesOf(before, ''));
  const later = new Map(leavesOf(after, ''));
  const lines: string[] = [];
  for (const [path, value] of later) {
    const old = earlier.get(path);
    if (old === undefined) lines.push(`+ ${path}: ${shorten(value)}`);
    else if (old !== value) lines.push(`~ ${path}: ${shorten(old)} -> ${shorten(value)}`);
  }
  for (const [path, value] of earlier) if (!later.has(path)) lines.push(`- ${path}: ${shorten(value)}`);
  if (lines.length <= linesMax) return lines;
  return [...lines.slice(0, linesMax - 1), `and ${lines.length - linesMax + 1} more`];
}

/** Returns every value with its path. An empty object or list counts as a value. */
function leavesOf(value: unknown, path: string): [path: string, value: string][] {
  if (typeof value !== 'object' || value === null) return value === undefined ? [] : [[path, JSON.stringify(value)]];
  const members = Array.isArray(value)
    ? value.map((item, index) => [`${path}[${index}]`, item] as const)
    : Object.entries(value).map(([name, item]) => [path === '' ? name : `${path}.${name}`, item] as const);
  if (members.length === 0 && path !== '') return [[path, JSON.stringify(value)]];
  return members.flatMap(([memberPath, member]) => leavesOf(member, memberPath));
}

function shorten(text: string): string {
  return text.length <= valueCharactersMax ? text : `${text.slice(0, valueCharactersMax)}…`;
}
