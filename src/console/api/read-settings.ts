/** The settings as this process has them, with every secret hidden. */
import { soundsSecret } from '#platform/secret-names.ts';
import { type ConsoleApiDeps, noQuery, readCall, requireAllFlows } from './console-call.ts';

export interface SettingsAnswer {
  readonly role: string;
  readonly settings: unknown;
}

export const settingsCall = ({ settings, role = 'all' }: ConsoleApiDeps) =>
  readCall('/api/settings', noQuery, async ({ viewer }): Promise<SettingsAnswer> => {
    requireAllFlows(viewer);
    return { role, settings: withoutSecrets(settings) };
  });

const hidden = '(hidden)';

/** A name that may stand for a secret hides everything below it. A URL shows no user and no password. */
function withoutSecrets(value: unknown, name = ''): unknown {
  if (soundsSecret(name)) return isEmpty(value) ? value : hidden;
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withoutSecrets(member, key)]));
  return typeof value === 'string' ? value.replace(/\/\/[^/@\s]+@/g, '//…@') : value;
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
}
