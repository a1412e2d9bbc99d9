/** The service and the bridge of one installation in one process, set up for each other. */
import type { Bridge } from '#bridge/create-bridge.ts';
import { type BridgeSettings, takesJobs } from '#bridge/settings/settings.ts';
import type { Service } from '#service/create-service.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { createConsoleDoctor } from './console-doctor.ts';
import { type Installation, startInstalledBridge, startInstalledService } from './installation.ts';
import { localSettings, localSource } from './local-settings.ts';
import { ensureLocalOrganisation, ensureLocalWebhook, keepServiceUrl, type LocalSetup } from './local-setup.ts';
import { takeStartLock } from './start-lock.ts';

export interface LocalPrograms {
  readonly service: Service;
  readonly bridge: Bridge;
  readonly setup: LocalSetup;
  /** The bridge's settings with what the local set-up adds. */
  readonly settings: BridgeSettings;
  close(): Promise<void>;
}

interface StartLocalOptions {
  readonly freePorts: boolean;
  /** How the service speaks; default: `spec`. */
  readonly profile?: ProfileName;
  /** Adds to the bridge's settings, once the service and its keys are there. */
  readonly addSettings?:
    | ((settings: BridgeSettings, serviceUrl: string, setup: LocalSetup) => BridgeSettings)
    | undefined;
}

/**
 * For each part of each program. They are closed one after the other, together within the 10 s of a service manager.
 */
const graceMs = 2_000;

/**
 * Starts both. With `freePorts` they listen on free ports instead of the configured ones. When one part fails to start,
 * the parts that were started before are stopped.
 */
export async function startLocalPrograms(
  installation: Installation,
  options: StartLocalOptions,
): Promise<LocalPrograms> {
  const lock = await takeStartLock(installation);
  try {
    return await startBoth(installation, options, lock);
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw error;
  }
}

async function startBoth(
  installation: Installation,
  options: StartLocalOptions,
  lock: AsyncDisposable,
): Promise<LocalPrograms> {
  const service = await startInstalledService(installation, {
    ...(options.profile && { profile: options.profile }),
    ...(options.freePorts && { port: 0 }),
  });
  try {
    const setup = await ensureLocalOrganisation(installation, service.url);
    await keepServiceUrl(installation, setup, service.url);
    const given = installation.configuration.bridge;
    const local = localSettings(options.freePorts ? { ...given, port: 0, console_port: 0 } : given, service.url, setup);
    const settings = options.addSettings?.(local, service.url, setup) ?? local;
    const bridge = await startInstalledBridge(installation, settings, 'all', {
      doctor: (sourceClientOf) => createConsoleDoctor(installation, settings, sourceClientOf),
    });
    try {
      for (const source of settings.sources)
        if (source.name === localSource)
          await ensureLocalWebhook(installation, source, {
            url: bridge.webhookUrl(localSource),
            jobs: takesJobs(settings, localSource),
          });
      const close = async () => {
        await service.close(graceMs);
        await bridge.close(graceMs);
        await lock[Symbol.asyncDispose]();
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
