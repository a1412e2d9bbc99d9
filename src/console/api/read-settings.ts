/** The settings as this process has them, with every secret hidden. */
import { loadConnector } from '#bridge/connectors/load-connector.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { AppError } from '#platform/errors.ts';
import { withoutSecretSettings } from '#platform/secret-settings.ts';
import { maySeePrices } from '../access/viewer.ts';
import { type ConsoleApiDeps, noQuery, readCall, requireAllFlows } from './console-call.ts';

export interface SettingsAnswer {
  readonly role: string;
  readonly settings: unknown;
}

export const settingsCall = ({ settings, fromEnvironment, role = 'all' }: ConsoleApiDeps) =>
  readCall('/api/settings', noQuery, async ({ viewer }): Promise<SettingsAnswer> => {
    requireAllFlows(viewer);
    if (!maySeePrices(viewer))
      throw new AppError('forbidden', 'The settings are free text, and your account shows none: it sees no prices.');
    const shown = withoutSecretSettings(settings, bridgeSettings, fromEnvironment) as BridgeSettings;
    const withOwn = (uses: readonly ConnectorUse[], given: readonly ConnectorUse[]) =>
      Promise.all(
        uses.map(async (use, index) => ({ ...use, settings: await ownSettings(given[index] ?? use, fromEnvironment) })),
      );
    return {
      role,
      settings: {
        ...shown,
        flows: await withOwn(shown.flows, settings.flows),
        intakes: await withOwn(shown.intakes, settings.intakes),
      },
    };
  });

interface ConnectorUse {
  readonly connector: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** A connector's own settings: only its own schema says which of them are secrets. */
async function ownSettings({ connector, settings }: ConnectorUse, fromEnvironment: readonly string[]) {
  try {
    return withoutSecretSettings(settings, (await loadConnector(connector)).settings, fromEnvironment);
  } catch {
    return `(hidden, since the connector ${connector} cannot be loaded)`;
  }
}
