/**
 * Which names stand for a secret. Logs are strict, as they hide whole values: only names that mean nothing else. Settings
 * of connectors have names of their authors', and are judged by how they sound.
 */

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

/** Whether what stands under this name is a secret. */
export function isSecretName(name: string): boolean {
  return exactNames.has(name.toLowerCase().replaceAll(/[-_]/g, ''));
}

const telling =
  /pass_?(word|wd|phrase)|secret|token|credential|(^|_)(auth|pwd|dsn)$|(api|access|account|client|encryption|hmac|master|private|shared|signing|subscription)_?key|connection_?string/i;
/** What says where a secret stands, or of what kind it is, is none. */
const about =
  /(url|uri|endpoint|path|file|folder|name|field|header|parameter|column|type|id|algorithm|encoding|prefix|seconds|minutes|ms)$/i;

/** Whether a setting of this name is one that is kept from logs and people. */
export function soundsSecret(name: string): boolean {
  return isSecretName(name) || (telling.test(name.replaceAll('-', '_')) && !about.test(name));
}
