/** Registers webhooks for a test bridge, as `bridge webhooks register` does. */
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { bridgeSettings, type SourceSettings } from '#bridge/settings/settings.ts';
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { createSecretBox } from '#platform/secrets.ts';
import type { TestBridge } from './test-bridge.ts';
import { testOutgoing } from './test-certificates.ts';

/**
 * The service then announces changes of the feeds of the source `main`, and the receivers accept its signatures at
 * once; with `jobs` also the ends of jobs.
 */
export async function registerTestWebhook(
  { bridge, db }: Pick<TestBridge, 'bridge' | 'db'>,
  { jobs = false, ...service }: { baseUrl: string; apiKey: string; jobs?: boolean },
): Promise<void> {
  const source = sourceOf(service.baseUrl, service.apiKey);
  const client = createSourceClient({
    settings: { ...service, timeoutMs: 30_000, retries: 3 },
    fetch: testOutgoing().fetch,
    clock: systemClock,
  });
  const deps = { client, source, jobs, database: db.database, secrets: createSecretBox(Buffer.alloc(32, 7)) };
  await registerWebhook({ ...deps, clock: systemClock }, { name: 'bridge', url: bridge.webhookUrl('main') });
}

function sourceOf(baseUrl: string, apiKey: string): SourceSettings {
  const [source] = bridgeSettings.parse({ sources: [{ name: 'main', base_url: baseUrl, api_key: apiKey }] }).sources;
  if (!source) throw new Error('no source');
  return source;
}
