/** Sentences of the decisions about the whole service that no other test file covers. */
import { expect, test } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { silentLogger } from '#platform/log.ts';
import { createApiDocuments } from '#service/openapi/api-documents.ts';
import { eventually } from '../../harness/eventually.ts';
import { createEvent, createSuppliers, endedJob } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startTokenServer } from '../../harness/token-server.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';

test('the database has no secret in plain text: keys are hashed, signing keys and client secrets sealed', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  const [receiver, tokenServer] = [await startWebhookReceiver(), await startTokenServer()];
  const clientSecret = 'the-client-secret-of-the-hook';
  const post = (path: string, body: object) =>
    organisation.call('POST', path, body, { 'idempotency-key': 'once', 'content-type': 'application/json' });
  const made = await post('/api/webhooks', {
    name: 'hook',
    url: receiver.url,
    triggers: ['JOB_UPDATED'],
    authentication: {
      type: 'OAUTH_CLIENT_CREDENTIALS',
      parameters: { access_token_url: tokenServer.url, client_id: 'client', client_secret: clientSecret },
    },
  });
  await createEvent(organisation, { name: 'x' });
  await eventually('the notification arrives', async () => receiver.received.length > 0);
  const { key } = (
    await service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, { name: 'second' })
  ).body;
  const { database } = service.db;
  const tables = await database.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema not in ('pg_catalog', 'information_schema') and table_type = 'BASE TABLE'`,
  );
  expect(tables.length).toBeGreaterThan(15);
  let everything = '';
  for (const { name } of tables) {
    const rows = await database.query<{ row: string }>(`select row_to_json(t)::text as row from ${name} as t`);
    everything += rows.map(({ row }) => row).join('\n');
  }
  expect(everything).toContain('"hook"');
  for (const secret of [organisation.key, key, made.body.signing_key, clientSecret, 'token-1', service.adminToken])
    for (const encoding of ['utf8', 'hex', 'base64', 'base64url'] as const) {
      const written = Buffer.from(secret).toString(encoding).replace(/=+$/, '');
      expect([secret, encoding, everything.includes(written)]).toEqual([secret, encoding, false]);
    }
  // Also not the decoded bytes of a key without its prefix.
  for (const secret of [organisation.key, key])
    expect(everything).not.toContain(Buffer.from(secret.slice(3), 'base64url').toString('hex'));
});

test('while the database is down every call is 503 with Retry-After; then the service works again', async () => {
  const db = await createTestDatabase();
  const unreachable = createDatabase({
    url: 'postgres://127.0.0.1:1/nobody',
    log: silentLogger,
    applicationName: 'test',
  });
  let isDown = false;
  const now = () => (isDown ? unreachable : db.database);
  const query: Sql['query'] = (statement, params) => now().query(statement, params);
  const database = {
    ...db.database,
    query,
    execute: (...statement: Parameters<typeof db.database.execute>) => now().execute(...statement),
    transaction: <T>(work: (tx: Sql) => Promise<T>) => now().transaction(work),
  };
  const service = await startTestService({ db: { ...db, database } });
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  isDown = true;
  const calls: [string, string, object?][] = [
    ['GET', '/api/manage/suppliers'],
    ['GET', '/api/feeds/awards'],
    ['POST', '/api/jobs/create-sourcing-events', { name: 'x' }],
    ['POST', '/desk/events/00000000-0000-4000-8000-000000000000/publish'],
  ];
  for (const [method, path, body] of calls) {
    const answer = await organisation.call(method, path, body);
    expect([path, answer.status, answer.headers.get('retry-after')]).toEqual([
      path,
      503,
      expect.stringMatching(/^\d+$/),
    ]);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(JSON.stringify(answer.body)).not.toMatch(/ECONN|127\.0\.0\.1|postgres/);
  }
  const alive = await fetch(`${service.url}/healthz`);
  expect(alive.status).toBe(200);
  // It tells what became of the last heartbeat, which is committed every few seconds.
  await expect.poll(async () => (await fetch(`${service.url}/readyz`)).status, { timeout: 10_000 }).toBe(503);
  isDown = false;
  const { body } = await organisation.call('GET', '/api/manage/suppliers');
  expect(body.count).toBe(1);
  expect((await endedJob(organisation, '/api/jobs/create-sourcing-events', { name: 'x' })).status).toBe('COMPLETED');
  await unreachable.close();
});

interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
  required?: string[];
  default?: unknown;
  description?: string;
  $ref?: string;
}

test('the OpenAPI document states what each optional member of the event payload means when it is left out', () => {
  const documents = createApiDocuments() as unknown as Record<
    string,
    { components: { schemas: Record<string, Schema> } }
  >;
  const schemas = documents['public']?.components.schemas;
  const payload = schemas?.['CreateSourcingEvent'];
  const behind = ({ $ref, ...own }: Schema): Schema => ({ ...schemas?.[$ref?.split('/').at(-1) ?? ''], ...own });
  /** The optional members with neither a default nor a sentence about their absence. */
  const undescribed = (schema: Schema | undefined, path: string): string[] =>
    Object.entries(schema?.properties ?? {}).flatMap(([name, referring]) => {
      const member = behind(referring);
      const isDescribed =
        schema?.required?.includes(name) === true || 'default' in member || member.description?.includes('Left out: ');
      return [...(isDescribed ? [] : [`${path}${name}`]), ...undescribed(member, `${path}${name}.`)];
    });
  expect(payload?.required).toEqual(['name']);
  // An event contact may have only a name or an e-mail: leaving one out needs no explanation.
  expect(undescribed(payload, '')).toEqual(['event_contact.name', 'event_contact.email']);
});
