/** Loads the library for SFTP when a flow needs it: the installed package comes without it. */
import { createRequire } from 'node:module';
import { ConfigError } from 'sourcing-bridge/connector';
import type ssh2 from 'ssh2';

const require = createRequire(import.meta.url);

/** Throws ConfigError with the command that installs it. */
export function loadSsh2(): typeof ssh2 {
  try {
    return require('ssh2') as typeof ssh2;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    throw new ConfigError('SFTP (settings.sftp) needs a package that is not installed: npm install ssh2', { cause });
  }
}
