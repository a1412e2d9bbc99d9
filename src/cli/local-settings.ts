/** The settings that `npm start` adds to the bridge's, for itself and for the commands that run beside it. */

import { resolve } from 'node:path';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { AppError } from '#platform/errors.ts';
import { startCommand } from '#platform/own-package.ts';
import { type Configuration, readConfiguration } from './configuration.ts';
import { type LocalSetup, readLocalSetup } from './local-setup.ts';

export const localSource = 'local';

/** Adds the source `local`, and a flow to files when no flow is configured. */
export function localSettings(
  given: BridgeSettings,
  serviceUrl: string,
  { bridgeKey }: Pick<LocalSetup, 'bridgeKey'>,
): BridgeSettings {
  const flow = {
    name: 'erp-inbox',
    source: localSource,
    connector: 'file',
    quantity_column: 'Annual Volume',
    unit_price_column: 'Unit Price',
    // The simulator withdraws a quarter of its awards, and no operator is there to agree to that.
    withdrawals: { share: 1 },
    settings: { directory: 'erp-inbox' },
  };
  return bridgeSettings.parse({
    ...given,
    sources: [
      ...given.sources.filter(({ name }) => name !== localSource),
      // The local organisation's limits are off, too.
      { name: localSource, base_url: serviceUrl, api_key: bridgeKey, quotas: { enabled: false } },
    ],
    flows: given.flows.length > 0 ? given.flows : [flow],
  });
}

/**
 * Reads the configuration of a command that runs beside the programs. When it names no source and the data folder is
 * one that `npm start` has set up, the command gets the settings of `npm start`. Throws an AppError `invalid`.
 */
export async function readCommandConfiguration(
  options: { config?: string; data?: string },
  needs: { withoutSecrets?: boolean } = {},
): Promise<Configuration> {
  const configuration = readConfiguration(options.config, options, process.env, needs);
  if (configuration.bridge.sources.length > 0) return configuration;
  const setup = await readLocalSetup(resolve(configuration.data_dir));
  if (setup?.serviceUrl === undefined) {
    refuseLocalSource(configuration);
    return configuration;
  }
  return { ...configuration, bridge: localSettings(configuration.bridge, setup.serviceUrl, setup) };
}

function refuseLocalSource({ bridge: { flows }, data_dir }: Configuration): void {
  const index = flows.findIndex(({ source }) => source === localSource);
  if (index >= 0)
    throw new AppError(
      'invalid',
      `The configuration is not valid: bridge.flows[${index}].source names the source "${localSource}". ${startCommand} adds ` +
        `this source, and it exists only with the data folder of ${startCommand} (--data), which ${data_dir} is not.`,
    );
}
