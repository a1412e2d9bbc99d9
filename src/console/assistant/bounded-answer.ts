/** Keeps an answer short enough for an assistant to read, and says what it leaves out. */

const rowsTried = [500, 200, 100, 50, 20, 10, 5, 2];
const textMax = 2_000;

/** Returns the answer as JSON of at most so many characters. Long lists and texts are cut, and each says by how much. */
export function boundedAnswer(answer: unknown, charactersMax: number): string {
  const whole = JSON.stringify(answer);
  if (whole.length <= charactersMax) return whole;
  for (const rows of rowsTried) {
    const text = JSON.stringify(cut(answer, rows));
    if (text.length <= charactersMax) return text;
  }
  return JSON.stringify({ more: `The answer has ${whole.length} characters, which is too long: ask for less.` });
}

function cut(value: unknown, rows: number): unknown {
  if (typeof value === 'string')
    return value.length <= textMax ? value : `${value.slice(0, textMax)}… (${value.length - textMax} more characters)`;
  if (Array.isArray(value)) {
    const kept = value.slice(0, rows).map((item) => cut(item, rows));
    return value.length <= rows ? kept : [...kept, `… ${value.length - rows} more, which are left out here`];
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, cut(member, rows)]));
}
