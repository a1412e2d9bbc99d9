/**
 * Removes the secrets of a flow's settings from what its connector says. Such texts are logged, stored as a document's
 * last error and shown on the command line, and may repeat what the connector logs in with, as errors of drivers and
 * HTTP clients do.
 */
import { secretsIn } from '#connector/settings.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { redactText } from '#platform/log.ts';
import { createSecretRemover } from '#platform/remove-secrets.ts';
import { isSecretName, soundsSecret } from '#platform/secret-names.ts';

/** `admin` may well be a part of an object's name in the ERP, and also somebody's password. */
const longCharactersMin = 8;

export interface SecretRedactor {
  /** Returns the text without secrets, and short enough to be stored and shown. */
  readonly redact: (text: string) => string;
  /** Returns the text without secrets, in its full length. */
  readonly removeSecrets: (text: string) => string;
  /** Whether the text holds a secret that is long enough not to stand there by chance. */
  readonly holdsSecret: (text: string) => boolean;
  /** From now on also removes the secrets that the connector's schema has marked in the parsed settings. */
  readonly addSecretsOf: (parsed: unknown) => void;
}

/**
 * Creates the redactor of a flow's settings. Before they are parsed it knows the values under names that stand for
 * secrets (`password`, `api_key`), in case the connector forgot to mark them, and the password of every URL.
 */
export function createSecretRedactor(settings: unknown): SecretRedactor {
  const secrets = namedSecretsIn(settings, false);
  let remove = createSecretRemover(secrets);
  let removeLong = createSecretRemover(longOf(secrets));
  const removeSecrets = (text: string) => redactText(remove(text));
  return {
    removeSecrets,
    redact: (text) => storableText(removeSecrets(text)),
    holdsSecret: (text) => removeLong(text) !== text,
    addSecretsOf: (parsed) => {
      const all = [...secrets, ...secretsIn(parsed).flatMap((text) => [text, ...passwordsOf(text)])];
      remove = createSecretRemover(all);
      removeLong = createSecretRemover(longOf(all));
    },
  };
}

function longOf(secrets: readonly string[]): string[] {
  return secrets.filter(({ length }) => length >= longCharactersMin);
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
