/** Hears everything that a connector says, and sends where others see it, and keeps what holds a secret. */
import { inspect } from 'node:util';

export interface LeakDetector {
  /** `where` is for the author: `a log line`. */
  readonly add: (where: string, what: unknown) => void;
  /** Secrets to look for from now on. */
  learn(secrets: readonly string[]): void;
  /** A line for each place where a secret stands; the secret itself is not shown. */
  leaks(): string[];
}

/** A shorter one would be found in the middle of plain words. */
const charactersMin = 4;

export function createLeakDetector(): LeakDetector {
  const secrets = new Set<string>();
  let spelled: { form: string; text: string }[] = [];
  const leaks = new Set<string>();
  return {
    add: (where, what) => {
      const text =
        typeof what === 'string'
          ? what
          : inspect(what, { depth: 12, maxArrayLength: Infinity, maxStringLength: 20_000 });
      // Only what is found is kept: the rest may be long.
      const leak = spelled.find((secret) => text.includes(secret.text));
      if (leak) leaks.add(`${where} (${leak.form}): ${text.replaceAll(leak.text, '[secret]').slice(0, 300)}`);
    },
    learn: (some) => {
      const fresh = some.filter((one) => one.length >= charactersMin && !secrets.has(one));
      for (const one of fresh) secrets.add(one);
      spelled = [...spelled, ...fresh.flatMap(spellings)];
    },
    leaks: () => [...leaks],
  };
}

function spellings(secret: string): { form: string; text: string }[] {
  const bytes = Buffer.from(secret, 'utf8');
  return [
    { form: 'as it is', text: secret },
    { form: 'as in a URL', text: encodeURIComponent(secret) },
    { form: 'as in JSON', text: JSON.stringify(secret).slice(1, -1) },
    { form: 'in hexadecimal', text: bytes.toString('hex') },
    ...[0, 1, 2].flatMap((offset) =>
      (['base64', 'base64url'] as const).map((form) => ({
        form: 'in Base64',
        text: insideBase64(bytes, offset, form),
      })),
    ),
  ].filter(({ text }) => text.length >= charactersMin);
}

/** The characters that these bytes always give behind `offset` others, as a user's name before a password. */
function insideBase64(bytes: Buffer, offset: number, form: 'base64' | 'base64url'): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString(form)
    .replace(/=+$/, '');
  const first = Math.ceil((offset * 8) / 6);
  const last = Math.floor(((offset + bytes.length) * 8) / 6);
  return encoded.slice(first, last);
}
