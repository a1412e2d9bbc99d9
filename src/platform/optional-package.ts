/**
 * Packages that only some installations need. The repository and the image have them; `npm install sourcing-bridge`
 * does not bring them along (`docker/package/manifest.ts`).
 */
import { AppError, errorText, hasErrorCode } from './errors.ts';

/** What needs which packages. */
export const optionalPackages = {
  assistant: ['@modelcontextprotocol/server'],
  s3: ['@aws-sdk/client-s3'],
  sftp: ['ssh2'],
  docsPage: ['swagger-ui-dist'],
  telemetry: [
    '@opentelemetry/exporter-logs-otlp-proto',
    '@opentelemetry/exporter-metrics-otlp-proto',
    '@opentelemetry/exporter-trace-otlp-proto',
    '@opentelemetry/resources',
    '@opentelemetry/sdk-logs',
    '@opentelemetry/sdk-metrics',
    '@opentelemetry/sdk-trace',
  ],
} as const;

/** The command that installs the packages of a part. */
export function installCommand(part: keyof typeof optionalPackages): string {
  return `npm install ${optionalPackages[part].join(' ')}`;
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
    const names = optionalPackages[part];
    if (!hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND') || !names.some((name) => errorText(cause).includes(`'${name}'`)))
      throw cause;
    const what = names.length === 1 ? 'a package that is' : 'packages that are';
    throw new AppError('invalid', `${purpose} needs ${what} not installed: ${installCommand(part)}`, { cause });
  }
}
