/**
 * The service with `--profile public` and a bridge with `dialect: public`, as processes, with the ERP of buying-erp.ts on
 * both ends of the bridge. The service keeps the limits of the public pages, and only a webhook wakes the bridge.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freePort } from '../harness/free-port.ts';
import { request } from '../harness/request.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { createOrganisation } from '../harness/test-organisation.ts';
import { buyingReads, startBuyingErp } from './buying-erp.ts';
import { beginErp, type Stage, template } from './buying-story.ts';
import { createInstallation, outcomeOf, until } from './program-process.ts';
import { type SupervisedProgram, superviseProgram } from './supervised-program.ts';

export interface BuyingPrograms {
  readonly stage: Stage;
  readonly service: SupervisedProgram;
  readonly bridge: SupervisedProgram;
  /** Runs `bridge <args>` to its end; fails unless its exit code is 0. */
  succeed(...args: readonly string[]): Promise<void>;
  /** What `bridge status` shows of feeds, flows and intakes that are not in step, and of dead letters. */
  notInStep(): Promise<string[]>;
  /** How many calls of the bridge to the ERP or the service have begun and are not known to have ended. */
  callsUnderWay(): Promise<number>;
  /** Ends both; fails unless both have run without a failure of their own. */
  end(): Promise<void>;
}

/** Starts everything; the buyer's template is there, and the service announces changes to the bridge. */
export async function startBuyingPrograms(): Promise<BuyingPrograms> {
  const [erp, { url: databaseUrl, database }] = [await startBuyingErp(), await createTestDatabase()];
  await beginErp(erp);
  const [servicePort, port] = [await freePort(), await freePort()];
  const serviceInstallation = await createInstallation({ databaseUrl });
  const { dataDir } = serviceInstallation;
  const service = superviseProgram('service', () =>
    serviceInstallation.start(['service', '--profile', 'public', '--port', String(servicePort)]),
  );
  await service.ready();
  const baseUrl = `http://127.0.0.1:${servicePort}`;
  const operator = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
  const organisation = await createOrganisation(baseUrl, operator);
  // The limits of the public pages.
  const admin = `${baseUrl}/admin/organisations/${organisation.id}`;
  await request('PUT', `${admin}/limits`, { key: operator, body: {} });
  const scopes = ['manage', 'jobs', 'feeds', 'webhooks'];
  const bridgeKey = await request('POST', `${admin}/api-keys`, { key: operator, body: { name: 'bridge', scopes } });

  const failure = () => service.failure ?? bridge.failure;
  const { id } = (await organisation.call('POST', '/api/jobs/create-sourcing-events', template)).body;
  const made = await until('the template is made', async () => {
    const { body } = await organisation.call('GET', `/api/jobs/${id}`);
    return body.status !== 'PENDING' && body;
  });
  const configuration = configurationOf({
    baseUrl,
    port,
    apiKey: bridgeKey.body.key,
    template: made.created_entity,
    erpUrl: erp.url,
  });
  const bridgeInstallation = await createInstallation({ dataDir, databaseUrl, configuration });
  const bridge = superviseProgram('bridge', () => bridgeInstallation.start(['bridge']));
  await bridge.ready();
  const succeed = async (...args: readonly string[]) => {
    const program = bridgeInstallation.start(['bridge', ...args]);
    await program.end;
    expect(outcomeOf(program)).toBe('exit code 0');
  };
  await succeed('webhooks', 'register', '--source', 'main');
  await succeed('webhooks', 'test', '--source', 'main');
  const stage: Stage = {
    erp,
    organisation,
    failure,
    agreeToFirstRun: async () => {
      const paused = `select from bridge.intakes where name = 'requisitions' and paused_kind = 'first-run'`;
      await until('the intake asks', async () => (await database.query(paused)).length > 0, failure);
      await succeed('resume', 'requisitions');
    },
  };
  return {
    stage,
    service,
    bridge,
    succeed,
    notInStep: async () => {
      const program = bridgeInstallation.start(['bridge', 'status', '--json']);
      await program.end;
      return textsOf(JSON.parse(program.lines.join('\n')));
    },
    callsUnderWay: async () => {
      const [row] = await database.query<{ open: number }>(callsUnderWay);
      return row?.open ?? 0;
    },
    end: async () => {
      expect(failure()).toBeUndefined();
      await bridge.end();
      await service.end();
    },
  };
}

function configurationOf(of: { baseUrl: string; port: number; apiKey: string; template: string; erpUrl: string }) {
  const reads = buyingReads(of.erpUrl);
  const intake = { connector: 'postgres', source: 'main', poll_seconds: 1 };
  const flow = {
    connector: 'postgres',
    source: 'main',
    quantity_column: 'Quantity',
    unit_price_column: 'Unit Price',
  };
  return {
    sweep_seconds: 1,
    bridge: {
      port: of.port,
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: of.baseUrl,
          api_key: of.apiKey,
          dialect: 'public',
          user_email: 'buyer@example.com',
          // Longer than the test: a notification must wake the bridge.
          poll_seconds: 3_600,
          // So long the end of the test waits, and a job whose answer was lost.
          lateness_seconds: 2,
          timeout_seconds: 5,
        },
      ],
      intakes: [
        { name: 'vendors', ...intake, mapping: { supplier: { fields: {} } }, settings: reads.suppliers },
        {
          name: 'requisitions',
          ...intake,
          stream: 'requisition',
          make: 'event-from-template',
          template: of.template,
          mapping: { lots: { columns: { Quantity: 'line.quantity', Unit: 'line.unit' } } },
          settings: reads.requisitions,
        },
      ],
      flows: [
        {
          ...flow,
          name: 'warehouse',
          documents: ['quotation', 'award', 'rfi-answers'],
          settings: { url: of.erpUrl, schema: 'sourcing', history: true },
        },
        {
          ...flow,
          name: 'orders',
          documents: ['award'],
          settings: { url: of.erpUrl, schema: 'bridge_orders', mode: 'function', function: 'erp.take_order' },
        },
      ],
    },
  };
}

const callsUnderWay = `select (
    (select count(*) from bridge.flow_documents where intent_id is not null)
    + (select count(*) from bridge.intake_submissions where state in ('intent', 'sent', 'uncertain'))
  )::int as open`;

interface Shown {
  readonly lag: { readonly inStep: boolean; readonly why: string };
  readonly deadLetters?: number;
}

function textsOf({ feeds, flows, intakes }: Record<'feeds' | 'flows' | 'intakes', Shown[]>): string[] {
  expect([feeds.length, flows.length, intakes.length]).toEqual([4, 2, 2]);
  return [...feeds, ...flows, ...intakes]
    .filter(({ lag, deadLetters = 0 }) => !lag.inStep || deadLetters > 0)
    .map((each) => JSON.stringify(each));
}
