/** Searches for secrets in everything that a connector says, or sends where others can see it. */
import { inspect } from 'node:util';

export interface LeakDetector {
  /** Searches a value. `where` tells the author its origin: `a log line`. */
  readonly add: (where: string, value: unknown) => void;
  /** Adds secrets to search for from now on. */
  learn(secrets: readonly string[]): void;
  /** One line per place where a secret was found; the secret itself is not shown. */
  leaks(): string[];
}

/** A shorter secret would be found inside ordinary words. */
const charactersMin = 4;

/** A detector that knows no secrets yet. */
export function createLeakDetector(): LeakDetector {
  const secrets = new Set<string>();
  let searched: { form: string; text: string }[] = [];
  const leaks = new Set<string>();
  return {
    add: (where, value) => {
      const text =
        typeof value === 'string'
          ? value
          : inspect(value, { depth: 12, maxArrayLength: Infinity, maxStringLength: 20_000 });
      // Only findings are kept: the texts may be long.
      const leak = searched.find((secret) => text.includes(secret.text));
      if (leak) leaks.add(`${where} (${leak.form}): ${text.replaceAll(leak.text, '[secret]').slice(0, 300)}`);
    },
    learn: (given) => {
      const added = given.filter((secret) => secret.length >= charactersMin && !secrets.has(secret));
      for (const secret of added) secrets.add(secret);
      searched = [...searched, ...added.flatMap(spellings)];
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

/**
 * The Base64 characters that always stand for these bytes after `offset` other bytes, as a user name before a password.
 */
function insideBase64(bytes: Buffer, offset: number, form: 'base64' | 'base64url'): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString(form)
    .replace(/(?<!=)=+$/, '');
  const first = Math.ceil((offset * 8) / 6);
  const last = Math.floor(((offset + bytes.length) * 8) / 6);
  return encoded.slice(first, last);
}
