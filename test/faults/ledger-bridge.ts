/** The set-up of the bridges in the fault tests: one source, and one flow into the ledger of ledger-connector.ts. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { feedTriggers } from '#contract/webhook.ts';
import { createOrganisation } from '../harness/test-organisation.ts';
import type { Installation } from './program-process.ts';

export interface Source {
  readonly baseUrl: string;
  /** The key of an organisation without rate limits. */
  readonly apiKey: string;
  readonly signingKeys: readonly string[];
}

const ledger = 'ledger.jsonl';

export const ledgerFile = (bridge: Installation) => join(bridge.dataDir, ledger);

/** Creates an organisation of the service whose notifications go to these URLs. */
export async function createSource(
  service: Installation,
  baseUrl: string,
  webhookUrls: readonly string[],
): Promise<Source> {
  const operator = (await readFile(join(service.dataDir, 'admin-token'), 'utf8')).trim();
  const organisation = await createOrganisation(baseUrl, operator);
  const signingKeys: string[] = [];
  for (const url of webhookUrls) {
    const triggers = Object.values(feedTriggers);
    const { body } = await organisation.call('POST', '/api/webhooks', { name: url, url, triggers });
    signingKeys.push(String(body.signing_key));
  }
  return { baseUrl, apiKey: organisation.key, signingKeys };
}

/** The configuration file; `more` adds settings to its parts. */
export function ledgerConfiguration(source: Source, more: { bridge?: object; source?: object } = {}): object {
  return {
    sweep_seconds: 1,
    bridge: {
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: source.baseUrl,
          api_key: source.apiKey,
          signing_keys: source.signingKeys,
          ...more.source,
        },
      ],
      flows: [
        {
          name: 'ledger',
          source: 'main',
          connector: join(import.meta.dirname, 'ledger-connector.ts'),
          settings: { file: ledger },
        },
      ],
      ...more.bridge,
    },
  };
}
