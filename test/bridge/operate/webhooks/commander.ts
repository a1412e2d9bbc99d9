/** Runs the webhook commands against a real service, one process after another; each may die at any step. */
import { testWebhooks } from '#bridge/operate/webhooks/test-webhook.ts';
import type { WebhookDeps } from '#bridge/operate/webhooks/webhook-deps.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { createSourceClient } from '#client/source-client.ts';
import type { WebhookCalls } from '#client/webhook-calls.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import type { TestDatabase } from '../../../harness/test-database.ts';
import type { TestOrganisation } from '../../../harness/test-organisation.ts';
import type { TestService } from '../../../harness/test-service.ts';
import { testSecrets } from '../../receive/receiver.ts';

/** The error with which a command ends whose process dies. */
export class Died extends Error {}

/** The step at which the process dies, from 0, and whether before the step or after it has taken effect. */
export interface Death {
  readonly step: number;
  readonly when: 'before' | 'after';
}

export interface Commander {
  /** The deps of a process's command. With a death they throw `Died` at that step, and at every later step. */
  deps(death?: Death): Promise<WebhookDeps>;
  /** Returns the webhooks that the service has. */
  atService(): Promise<{ uuid: string; name: string; url: string; is_active: boolean }[]>;
  /** Sends a TEST through each webhook of this bridge, and returns how many arrived in the inbox. */
  arrived(): Promise<number>;
}

/** The command looks for the arrived TEST five times a second; a test looks more often. */
const quickLooks: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 20, signal) };

export type Bearer = NonNullable<BridgeSettings['sources'][number]['bearer']>;

export function createCommander(
  service: TestService,
  organisation: TestOrganisation,
  db: TestDatabase,
  options: { alter?: (client: WebhookCalls) => Partial<WebhookCalls>; bearer?: Bearer } = {},
): Commander {
  const [source] = bridgeSettings.parse({
    sources: [
      {
        name: 'main',
        base_url: service.url,
        api_key: organisation.key,
        ...(options.bearer ? { bearer: options.bearer } : {}),
      },
    ],
  }).sources;
  if (!source) throw new Error('no source');
  const own = source;

  async function deps(death?: Death): Promise<WebhookDeps> {
    const client = createSourceClient({
      settings: { baseUrl: service.url, apiKey: organisation.key, timeoutMs: 30_000, retries: 3 },
      fetch: testOutgoing().fetch,
      clock: systemClock,
    });
    const altered: WebhookCalls = { ...client, ...options.alter?.(client) };
    let steps = 0;
    const step = async <T>(effect: () => Promise<T>): Promise<T> => {
      const number = steps;
      steps += 1;
      if (death && (number > death.step || (number === death.step && death.when === 'before'))) throw new Died();
      const result = await effect();
      if (death && number === death.step) throw new Died();
      return result;
    };
    const dying = (sql: Sql): Sql => ({
      query: (statement, params) => step(() => sql.query(statement, params)),
    });
    const database: Database = {
      ...db.database,
      ...dying(db.database),
      // A transaction takes effect as a whole, with its commit.
      transaction: (work) => step(() => db.database.transaction(work)),
      session: (use) => db.database.session((session) => use(dying(session))),
    };
    const dyingClient: WebhookCalls = {
      listWebhooks: (...given) => step(() => altered.listWebhooks(...given)),
      createWebhook: (...given) => step(() => altered.createWebhook(...given)),
      readWebhook: (...given) => step(() => altered.readWebhook(...given)),
      updateWebhook: (...given) => step(() => altered.updateWebhook(...given)),
      listDeliveries: (...given) => step(() => altered.listDeliveries(...given)),
      resendDelivery: (...given) => step(() => altered.resendDelivery(...given)),
      deleteWebhook: (...given) => step(() => altered.deleteWebhook(...given)),
      testWebhook: (...given) => step(() => altered.testWebhook(...given)),
    };
    return { client: dyingClient, source: own, database, secrets: testSecrets, clock: systemClock };
  }

  return {
    deps,
    atService: async () => (await organisation.call('GET', '/api/webhooks?page_size=1000')).body.result,
    arrived: async () => {
      const tested = await testWebhooks(
        { ...(await deps()), fetch: testOutgoing().fetch, clock: quickLooks },
        { timeoutMs: 10_000, signal: new AbortController().signal },
      );
      return tested.filter(({ arrived }) => arrived).length;
    },
  };
}

/** Runs a command whose process may die; returns whether it ended. Any other failure fails the test. */
export async function survives(command: Promise<unknown>): Promise<boolean> {
  try {
    await command;
    return true;
  } catch (error) {
    if (error instanceof Died) return false;
    throw error;
  }
}
