/** The settings of config/examples/cloud-to-guided-sourcing.yaml, with the address of the stand-in. */
import { join } from 'node:path';
import { readConfiguration } from '#cli/configuration.ts';
import { apiKey } from './guided-sourcing.ts';

const path = join(import.meta.dirname, '../../../config/examples/cloud-to-guided-sourcing.yaml');

export function guidedSourcingSettings(address: string): Record<string, unknown> {
  const env = { CLOUD_API_KEY: 'api', CLOUD_SIGNING_KEY: 'signing', TARGET_API_KEY: apiKey };
  const { settings } = readConfiguration(path, {}, env).bridge.flows[0] as { settings: Record<string, unknown> };
  return { ...settings, base_url: address };
}
