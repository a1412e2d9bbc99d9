/**
 * What a connector says is shown to people and kept: in logs, as a document's last error, on the command line. It may
 * repeat what the connector was given to log in with, as drivers and HTTP clients do in their errors.
 */
import { censor, isSecretName, redactText } from '#platform/log.ts';
import { storableText } from '../storable-text.ts';

/** A shorter one would be found in the middle of plain words. */
const charactersMin = 4;

const telling =
  /pass(word|wd|phrase)|secret|token|credential|(^|_)auth$|(^|_)pwd$|(api|access|account|client|private|shared|subscription)_?key|connection_?string|(^|_)dsn$/i;

/**
 * Makes a text of the connector's fit to be kept and shown: without what stands in these settings under the name of a
 * secret or as the password of a URL, and no longer than a person reads.
 */
export function keepSecrets(settings: unknown): (text: string) => string {
  const secrets = [...new Set(secretsIn(settings, false).flatMap(spellings))]
    .filter(({ length }) => length >= charactersMin)
    // One may be the beginning of another.
    .sort((a, b) => b.length - a.length);
  return (text) => {
    let told = text;
    for (const secret of secrets) told = told.replaceAll(secret, censor);
    return storableText(redactText(told));
  };
}

function secretsIn(value: unknown, named: boolean): string[] {
  if (typeof value === 'string') return named ? [value] : passwordsOf(value);
  if (typeof value === 'number') return named ? [String(value)] : [];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one) => secretsIn(one, named));
  return Object.entries(value).flatMap(([name, one]) => {
    // What stands in `auth: { user, password }` has names of its own.
    const isGroup = typeof one === 'object' && !Array.isArray(one);
    return secretsIn(one, named || isSecretName(name) || (!isGroup && telling.test(name)));
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
