import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { registerTestWebhook } from '../harness/register-webhook.ts';
import { createEvent, createSuppliers, desk, eventPayload } from '../harness/sourcing.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { startTestService } from '../harness/test-service.ts';

test('an award is delivered from the desk, by a webhook and a feed, to the connector', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  const { bridge, db, dataDir } = await startTestBridge({
    sources: [{ name: 'main', base_url: service.url, api_key: organisation.key, poll_seconds: 3600 }],
    flows: [{ name: 'inbox', source: 'main', connector: 'file', settings: { directory: 'inbox' } }],
  });
  await registerTestWebhook({ bridge, db }, { baseUrl: service.url, apiKey: organisation.key });

  await createSuppliers(organisation, ['S1']);
  const event = await createEvent(organisation, eventPayload({ lots: ['A', 'B'], suppliers: ['S1'] }));
  await desk(organisation, 'POST', `${event}/publish`);
  await desk(organisation, 'POST', `${event}/bids`, {
    supplier: 'S1',
    lots: [{ lot: 'A', values: { Price: '2.50' } }],
  });
  await desk(organisation, 'PUT', `${event}/scenarios/best`, {
    awards: [{ lot: 'A', supplier: 'S1', share_awarded: '0.5' }],
  });
  await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${event}/close`);

  const folder = join(dataDir, 'inbox');
  const name = await eventually('the award is in the folder', async () =>
    (await readdir(folder)).find((file) => file.endsWith('.json') && !file.startsWith('.')),
  );
  const document = JSON.parse(await readFile(join(folder, name), 'utf8'));
  // 10 pieces at 2.50 cost 25; half of the lot is awarded.
  expect(document).toMatchObject({ state: 'awarded', currency: 'EUR', total_cost: '12.5', event: { id: event } });
  expect(document.lines).toMatchObject([{ lot: 'A', share: '0.5', cost: '12.5' }]);
});
