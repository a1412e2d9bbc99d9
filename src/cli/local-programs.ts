/** Service and bridge of one installation in one process, set up for each other. */
import type { Bridge } from '#bridge/create-bridge.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings.ts';
import type { Service } from '#service/create-service.ts';
import { type Installation, startInstalledBridge, startInstalledService } from './installation.ts';
import { ensureLocalOrganisation, ensureLocalWebhook, type LocalSetup } from './local-setup.ts';

export interface LocalPrograms {
  readonly service: Service;
  readonly bridge: Bridge;
  readonly setup: LocalSetup;
  /** The bridge's settings with what the local set-up adds. */
  readonly settings: BridgeSettings;
  close(): Promise<void>;
}

export const localSource = 'local';
/** For each part of each program, one after the other: together they stay within the 10 s of a service manager. */
const graceMs = 2_000;

/** Starts both; `freePorts` leaves the configured ports to others. What was started is stopped when a later part fails. */
export async function startLocalPrograms(
  installation: Installation,
  options: { freePorts: boolean },
): Promise<LocalPrograms> {
  const service = await startInstalledService(installation, options.freePorts ? { port: 0 } : {});
  try {
    const setup = await ensureLocalOrganisation(installation, service.url);
    const settings = localSettings(installation.configuration.bridge, service.url, setup, options.freePorts);
    const bridge = await startInstalledBridge(installation, settings);
    try {
      bridge.addSigningKey(
        localSource,
        await ensureLocalWebhook(installation, service.url, setup, bridge.webhookUrl(localSource)),
      );
      const close = async () => {
        await service.close(graceMs);
        await bridge.close(graceMs);
      };
      return { service, bridge, setup, settings, close };
    } catch (error) {
      await bridge.close(0);
      throw error;
    }
  } catch (error) {
    await service.close(0);
    throw error;
  }
}

/** Adds the source `local`, and a flow to files where none is configured. */
function localSettings(
  given: BridgeSettings,
  serviceUrl: string,
  setup: LocalSetup,
  freePorts: boolean,
): BridgeSettings {
  const flow = {
    name: 'erp-inbox',
    source: localSource,
    connector: 'file',
    quantity_column: 'Annual Volume',
    unit_price_column: 'Unit Price',
    settings: { directory: 'erp-inbox' },
  };
  return bridgeSettings.parse({
    ...given,
    ...(freePorts ? { port: 0, console_port: 0 } : {}),
    sources: [
      ...given.sources.filter(({ name }) => name !== localSource),
      {
        name: localSource,
        base_url: serviceUrl,
        api_key: setup.bridgeKey,
        signing_keys: setup.webhook ? [setup.webhook.signingKey] : [],
      },
    ],
    flows: given.flows.length > 0 ? given.flows : [flow],
  });
}
