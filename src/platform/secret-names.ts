/**
 * Which names stand for a secret, and what is shown in place of one. For logs, which hide the whole value, only names that
 * mean nothing else count. The settings of connectors have names that their authors chose, so there a name counts that
 * contains such a word.
 */

/** Replaces a secret. */
export const censor = '[secret]';

const exactNames = new Set([
  'accesstoken',
  'admintoken',
  'apikey',
  'authorization',
  'clientsecret',
  'cookie',
  'key',
  'keypem',
  'masterkey',
  'passphrase',
  'password',
  'privatekey',
  'proxyauthorization',
  'refreshtoken',
  'secret',
  'secrets',
  'setcookie',
  'signingkey',
  'signingkeys',
  'token',
  'xapikey',
]);

/** Whether a value under this name is a secret. */
export function isSecretName(name: string): boolean {
  return exactNames.has(name.toLowerCase().replaceAll(/[-_]/g, ''));
}

const secretWord =
  /pass_?(word|wd|phrase)|secret|token|credential|(^|_)(auth|pwd|dsn)$|(api|access|account|client|encryption|hmac|master|private|shared|signing|subscription)_?key|connection_?string/i;
/** A name that ends like this says where a secret is, or of what kind: it is no secret itself. */
const descriptiveEnding =
  /(url|uri|endpoint|path|file|folder|name|field|header|parameter|column|type|id|algorithm|encoding|prefix|seconds|minutes|ms)$/i;

/** Whether a setting with this name is never logged or shown. */
export function soundsSecret(name: string): boolean {
  return isSecretName(name) || (secretWord.test(name.replaceAll('-', '_')) && !descriptiveEnding.test(name));
}
