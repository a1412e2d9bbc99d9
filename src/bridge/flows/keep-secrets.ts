/**
 * What a connector says is shown to people and kept: in logs, as a document's last error, on the command line. It may
 * repeat what the connector was given to log in with, as drivers and HTTP clients do in their errors.
 */
import { secretsIn } from '#connector/settings.ts';
import { censor, redactText } from '#platform/log.ts';
import { isSecretName, soundsSecret } from '#platform/secret-names.ts';
import { storableText } from '../storable-text.ts';

/** A shorter one would be found in the middle of plain words. */
const charactersMin = 4;

/** What a connector says, without secrets. */
export interface SecretKeeper {
  /** A text fit to be kept and shown: also no longer than a person reads. */
  readonly tell: (text: string) => string;
  readonly hide: (text: string) => string;
  /** Takes the secrets of settings, once they are parsed: those that the connector has marked. */
  readonly learn: (parsed: unknown) => void;
}

/**
 * Keeps the secrets of a flow's settings: those that the connector marks, what stands there under the name of a secret,
 * should it have forgotten one, and the password of any URL.
 */
export function keepSecrets(settings: unknown): SecretKeeper {
  let secrets = ordered(namedSecretsIn(settings, false));
  const hide = (text: string) => {
    let told = text;
    for (const secret of secrets) told = told.replaceAll(secret, censor);
    return redactText(told);
  };
  return {
    hide,
    tell: (text) => storableText(hide(text)),
    learn: (parsed) => {
      secrets = ordered([...secrets, ...secretsIn(parsed).flatMap((text) => [text, ...passwordsOf(text)])]);
    },
  };
}

function ordered(secrets: readonly string[]): string[] {
  return (
    [...new Set(secrets.flatMap(spellings))]
      .filter(({ length }) => length >= charactersMin)
      // One may be the beginning of another.
      .sort((a, b) => b.length - a.length)
  );
}

function namedSecretsIn(value: unknown, named: boolean): string[] {
  if (typeof value === 'string') return [...(named ? [value] : []), ...passwordsOf(value)];
  if (typeof value === 'number') return named ? [String(value)] : [];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one) => namedSecretsIn(one, named));
  return Object.entries(value).flatMap(([name, one]) => {
    // What stands in `auth: { user, password }` has names of its own.
    const isGroup = typeof one === 'object' && !Array.isArray(one);
    return namedSecretsIn(one, named || isSecretName(name) || (!isGroup && soundsSecret(name)));
  });
}

/** Of `https://user:password@host`, as it stands there and as it is sent. */
function passwordsOf(text: string): string[] {
  const { password } = URL.canParse(text) ? new URL(text) : { password: '' };
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}

/** As it may stand in an address or in JSON. */
function spellings(secret: string): string[] {
  return [secret, encodeURIComponent(secret.toWellFormed()), JSON.stringify(secret).slice(1, -1)];
}
