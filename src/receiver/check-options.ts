/**
 * Checks options at run time: callers write JavaScript, and a setting that nobody has set arrives as undefined or NaN. What
 * is wrong is thrown when the receiver is made, and not found by the first notification. No message shows a text: it may be
 * a key.
 */

export interface OptionCheck {
  readonly isRight: (value: unknown) => boolean;
  /** What the value must be. */
  readonly wanted: string;
}

export const aFunction: OptionCheck = { isRight: (value) => typeof value === 'function', wanted: 'a function' };
export const aString: OptionCheck = { isRight: (value) => typeof value === 'string', wanted: 'a string' };
export const aPositiveNumber: OptionCheck = {
  isRight: (value) => typeof value === 'number' && value > 0,
  wanted: 'a number above 0',
};

export function anObjectWith(...methods: readonly string[]): OptionCheck {
  return {
    isRight: (value) => isObject(value) && methods.every((method) => typeof value[method] === 'function'),
    wanted: `an object with the methods ${methods.join(', ')}`,
  };
}

/**
 * Throws a TypeError that names the first option which is not in `checks`, which is not what its check wants, or which is
 * in `required` and not given. An option that is undefined is not given.
 */
export function checkOptions(
  caller: string,
  options: unknown,
  checks: Readonly<Record<string, OptionCheck>>,
  required: readonly string[] = [],
): void {
  if (!isObject(options)) throw new TypeError(`${caller} takes an object of options, not ${kindOf(options)}.`);
  for (const name of Object.keys(options))
    if (!Object.hasOwn(checks, name))
      throw new TypeError(`${caller} has no option ${name}. It has: ${Object.keys(checks).join(', ')}.`);
  for (const [name, { isRight, wanted }] of Object.entries(checks)) {
    const value = options[name];
    if (value === undefined && !required.includes(name)) continue;
    if (!isRight(value))
      throw new TypeError(`The option ${name} of ${caller} must be ${wanted}, and is ${kindOf(value)}.`);
  }
}

/** What a value is; what it says only of a number. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null || typeof value === 'number') return String(value);
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
