/**
 * Removes the secrets of a flow's settings from what its connector says. Such texts are logged, stored as a document's
 * last error and shown on the command line, and may repeat what the connector logs in with, as errors of drivers and
 * HTTP clients do.
 */
import { secretsIn } from '#connector/settings.ts';
import { censor, redactText } from '#platform/log.ts';
import { isSecretName, soundsSecret } from '#platform/secret-names.ts';
import { storableText } from '../storable-text.ts';

/** Shorter secrets are not removed, as they would be found inside plain words. */
const charactersMin = 4;

export interface SecretRedactor {
  /** Returns the text without secrets, and short enough to be stored and shown. */
  readonly redact: (text: string) => string;
  /** Returns the text without secrets, in its full length. */
  readonly removeSecrets: (text: string) => string;
  /** From now on also removes the secrets that the connector's schema has marked in the parsed settings. */
  readonly addSecretsOf: (parsed: unknown) => void;
}

/**
 * Creates the redactor of a flow's settings. Before they are parsed it knows the values under names that stand for
 * secrets (`password`, `api_key`), in case the connector forgot to mark them, and the password of every URL.
 */
export function createSecretRedactor(settings: unknown): SecretRedactor {
  let secrets = longestFirst(namedSecretsIn(settings, false));
  const removeSecrets = (text: string) => {
    let redacted = text;
    for (const secret of secrets) redacted = redacted.replaceAll(secret, censor);
    return redactText(redacted);
  };
  return {
    removeSecrets,
    redact: (text) => storableText(removeSecrets(text)),
    addSecretsOf: (parsed) => {
      secrets = longestFirst([...secrets, ...secretsIn(parsed).flatMap((text) => [text, ...passwordsOf(text)])]);
    },
  };
}

/** Longest first, since one secret may be the beginning of another. */
function longestFirst(secrets: readonly string[]): string[] {
  return [...new Set(secrets.flatMap(spellings))]
    .filter(({ length }) => length >= charactersMin)
    .sort((a, b) => b.length - a.length);
}

function namedSecretsIn(value: unknown, isNamedSecret: boolean): string[] {
  if (typeof value === 'string') return [...(isNamedSecret ? [value] : []), ...passwordsOf(value)];
  if (typeof value === 'number') return isNamedSecret ? [String(value)] : [];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item) => namedSecretsIn(item, isNamedSecret));
  return Object.entries(value).flatMap(([name, member]) => {
    // The members of a group such as `auth: { user, password }` have names of their own.
    const isGroup = typeof member === 'object' && !Array.isArray(member);
    return namedSecretsIn(member, isNamedSecret || isSecretName(name) || (!isGroup && soundsSecret(name)));
  });
}

/** The password of `https://user:password@host`, as it stands there and decoded, as it is sent. */
function passwordsOf(text: string): string[] {
  const { password } = URL.canParse(text) ? new URL(text) : { password: '' };
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}

/** The secret itself, its spelling in an address, and its spelling in JSON. */
function spellings(secret: string): string[] {
  return [secret, encodeURIComponent(secret.toWellFormed()), JSON.stringify(secret).slice(1, -1)];
}
