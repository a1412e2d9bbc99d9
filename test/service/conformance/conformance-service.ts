/**
 * The service of the conformance tests. The tests move its clock, so every time is known. It has an organisation with
 * suppliers and requests, and their ids, which records refer to.
 */
import { Client } from 'pg';
import { onTestFinished } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { changeSuppliers, createRequest } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';
import type { AnyRecord } from '../../harness/watch-feeds.ts';

const startMs = Date.UTC(2030, 0, 1);

/** A timestamp by minutes after the service's start: `at(61)` is an hour and a minute after it. */
export function at(minute: number): string {
  return `${new Date(startMs + minute * 60_000).toISOString().slice(0, 23)}000Z`;
}

export const someUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

interface ConformanceService {
  readonly service: TestService;
  readonly organisation: TestOrganisation;
  /** The id of the organisation's API key, whose name is `test`. */
  readonly apiKeyId: string;
  readonly requests: readonly [string, string];
  /** The suppliers' ids by `external_id`. */
  readonly supplierIds: Readonly<Record<string, string>>;
  /** The contacts' ids by e-mail. */
  readonly contactIds: Readonly<Record<string, string>>;
  moveTo(minute: number): void;
  /** Waits for the event's record in the events feed that a worker or a timer has appended. */
  eventRecord(event: string, shows: (record: AnyRecord) => boolean): Promise<AnyRecord>;
}

/**
 * Starts a service. At minute 0 it has the suppliers S1 (two contacts), S2 (one) and S3 (none), and two sourcing
 * requests.
 */
export async function startConformanceService(): Promise<ConformanceService> {
  const clock = createManualClock(startMs);
  const service = await startTestService({ clock });
  const organisation = await service.organisation();
  await service.operator('POST', `/admin/organisations/${organisation.id}/supplier-attributes`, { name: 'Region' });
  await changeSuppliers(
    organisation,
    {
      external_id: 'S1',
      name: 'Möbel & Söhne',
      fields: { Region: 'EMEA' },
      contacts: [
        { name: 'Ann', email: 'ann@one.example' },
        { name: 'Bob', email: 'bob@one.example' },
      ],
    },
    { external_id: 'S2', name: 'Second', contacts: [{ name: 'Cid', email: 'cid@two.example' }] },
    { external_id: 'S3', name: 'Third' },
  );
  const { database } = service.db;
  const suppliers = await database.query<{ name: string; id: string }>(
    'select external_id as name, id from service.suppliers where organisation_id = $1',
    [organisation.id],
  );
  const contacts = await database.query<{ name: string; id: string }>(
    `select c.email as name, c.id from service.supplier_contacts c join service.suppliers s on s.id = c.supplier_id
     where s.organisation_id = $1`,
    [organisation.id],
  );
  const keys = await service.operator('GET', `/admin/organisations/${organisation.id}/api-keys`);
  return {
    service,
    organisation,
    apiKeyId: keys.body.result[0].id,
    requests: [await createRequest(organisation), await createRequest(organisation)],
    supplierIds: idsByName(suppliers),
    contactIds: idsByName(contacts),
    moveTo: (minute) => {
      const byMs = startMs + minute * 60_000 - clock.nowMs();
      if (byMs < 0) throw new Error('the clock cannot go back');
      clock.advance(byMs);
    },
    eventRecord: (event, shows) =>
      eventually('the events feed shows it', async () => {
        const { body } = await organisation.call('GET', `/api/feeds/sourcing-events?id=${event}`);
        return shows(body.data[0]) && body.data[0];
      }),
  };
}

/** Blocks the organisation's submissions and jobs until the returned function is called or the test ends. */
export async function holdWorkers({ service, organisation }: ConformanceService): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: service.db.url });
  await client.connect();
  let isHeld = true;
  const release = async () => {
    if (isHeld) await client.end();
    isHeld = false;
  };
  onTestFinished(release);
  await client.query('begin');
  await client.query('select from service.feed_heads where organisation_id = $1 for update', [organisation.id]);
  return release;
}

function idsByName(rows: readonly { name: string; id: string }[]): Record<string, string> {
  return Object.fromEntries(rows.map(({ name, id }) => [name, id]));
}
