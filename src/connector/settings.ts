/**
 * Secrets in the settings of connectors. The schema marks a setting as secret; parsed, it is a `Secret`, which shows
 * its text only through `reveal()`. The bridge removes the texts of all secrets from whatever the connector says.
 */
import { inspect } from 'node:util';
import { z } from 'zod';
import { censor } from '#platform/secret-names.ts';
import { secretMark } from '#platform/secret-settings.ts';

/** A text that no log line, JSON document or error shows: they get `[secret]` instead. */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself: for the header, the driver or the signature that needs it, and nothing else. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return censor;
  }

  toJSON(): string {
    return censor;
  }

  [inspect.custom](): string {
    return censor;
  }
}

/** A setting that is a secret: a password, a token, a key, or a URL that holds one. */
export function secret() {
  return z
    .string()
    .min(1)
    .transform((text) => new Secret(text))
    .meta(secretMark);
}

/** The texts of all secrets in parsed settings, at any depth. */
export function secretsIn(value: unknown): string[] {
  if (value instanceof Secret) return [value.reveal()];
  if (typeof value !== 'object' || value === null) return [];
  return (Array.isArray(value) ? value : Object.values(value)).flatMap(secretsIn);
}
