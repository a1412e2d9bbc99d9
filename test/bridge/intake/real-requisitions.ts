/** An intake of requisitions between a real ERP (the one of the memory connector) and the real service. */
import { readIntakeDeadLetters, resumeIntake } from '#bridge/intake/control-intakes.ts';
import { createErpReader } from '#bridge/intake/read-erp.ts';
import { registerIntakes } from '#bridge/intake/register-intakes.ts';
import { createWishOf } from '#bridge/intake/requisitions/requisition-need.ts';
import { createIntakeRun } from '#bridge/intake/run-intake.ts';
import { createWanted } from '#bridge/intake/wanted-supplier.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { dialectOf } from '#bridge/mirror/source/source-clients.ts';
import { readIntakeStatuses } from '#bridge/operate/status/intake-status.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { createSourceClient } from '#client/source-client.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import memory from '../../../connectors/memory/index.ts';
import { startMemoryErp } from '../../../connectors/memory/memory-erp.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { eventually } from '../../harness/eventually.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import type { TestService } from '../../harness/test-service.ts';
import { flowOf } from '../parts.ts';

const credentials = { clientId: 'bridge', clientSecret: 'secret' };

/** Registers the intake, whose settings are `given` and what every intake needs; nothing has been read then. */
export async function startRequisitions(
  { service, organisation }: { service: Pick<TestService, 'url'>; organisation: Pick<TestOrganisation, 'key'> },
  given: Record<string, unknown>,
  ofSource: Record<string, unknown> = {},
) {
  const erp = await startMemoryErp(credentials);
  const { database } = await createTestDatabase();
  const flow = flowOf({
    source: 'main',
    documents: ['award'],
    quantity_column: 'Quantity',
    unit_price_column: 'Price',
  });
  const settings = bridgeSettings.parse({
    sources: [{ name: 'main', base_url: service.url, api_key: organisation.key, ...ofSource }],
    intakes: [
      { name: 'requisitions', source: 'main', connector: 'memory', stream: 'requisition', poll_seconds: 1, ...given },
    ],
  });
  const [intake, source] = [settings.intakes[0], settings.sources[0]];
  if (!intake || !source) throw new Error('no settings');
  const session = await memory.open(
    memory.settings.parse({ base_url: erp.address, client_id: 'bridge', client_secret: 'secret' }),
    testContext().context,
  );
  closeAtEnd(() => session.close());
  const now = () => timestampNow(systemClock);
  const secrets = { mac: () => Buffer.from('mac'), verifiesMac: () => true } as never;
  await registerIntakes(database, settings.intakes, secrets, now());
  await registerFlows(database, [flow], now());
  const deps = {
    intake,
    source,
    reader: createErpReader(session, 'requisition', { pageMs: 60_000, redact: (text) => text }),
    client: createSourceClient({
      settings: {
        baseUrl: service.url,
        apiKey: organisation.key,
        timeoutMs: 30_000,
        retries: 0,
        dialect: dialectOf(source),
      },
      fetch: testOutgoing().fetch,
      clock: systemClock,
    }),
    teller: undefined,
    wantedOf: createWanted(intake),
    wishOf: createWishOf(intake, source),
    database,
    clock: systemClock,
    log: silentLogger,
    count: () => undefined,
    acquireLease: createLeases({
      database,
      liveness: { id: 1, isAlive: async () => true },
    }),
  };
  const work = createIntakeRun(deps);
  const run = () => work(new AbortController().signal);
  const status = async () => (await readIntakeStatuses(database, settings, now()))[0];
  return {
    erp,
    database,
    flow,
    deps,
    run,
    status,
    now,
    letters: () => readIntakeDeadLetters(database, { limit: 100 }),
    /** A person agrees to the first run, and the intake works until nothing is left to do. */
    makeAll: async () => {
      await run();
      await resumeIntake(database, 'requisitions', { agreeToArchive: false }, now());
      await eventually('all is made', async () => {
        await run();
        return (await status())?.lag.why === 'in step';
      });
    },
  };
}
