/**
 * Packages that only some installations need. The repository and the image have them; `npm install sourcing-bridge`
 * does not bring them along (`docker/package/manifest.ts`).
 */
import { AppError, errorText, hasErrorCode } from './errors.ts';

/** What needs which package. */
export const optionalPackages = {
  s3: '@aws-sdk/client-s3',
  sftp: 'ssh2-sftp-client',
  docsPage: 'swagger-ui-dist',
} as const;

/** The command that installs the package of a part. */
export function installCommand(part: keyof typeof optionalPackages): string {
  return `npm install ${optionalPackages[part]}`;
}

/** Loads a module of an optional part. Throws AppError `invalid` with the command that installs what is missing. */
export async function loadOptional<Module>(
  part: keyof typeof optionalPackages,
  purpose: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    const name = optionalPackages[part];
    if (!hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND') || !errorText(cause).includes(`'${name}'`)) throw cause;
    throw new AppError('invalid', `${purpose} needs a package that is not installed: ${installCommand(part)}`, {
      cause,
    });
  }
}
