/**
 * The conformance kit against the stand-in for Odoo 19. ODOO_KIT=full injects every fault at every request of every
 * kind; without it, the ordinary checks run with the most important ones.
 */
import { conformance } from 'sourcing-bridge/connector/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { isOrdinary } from '../ordinary-checks.ts';
import { odooTarget, productCode } from './conformance-target.ts';
import { readerOfStandIn } from './odoo-reader.ts';
import { users } from './stand-in/seed.ts';
import { databaseName, type OdooStandIn, startStandIn } from './stand-in/server.ts';

const isFullRun = process.env['ODOO_KIT'] === 'full';

/** Long: the full run breaks the connection at each request of each kind. */
const checkTimeoutMs = 300_000;

/** The full run also has the orders confirmed, and amended then. */
const modes = [
  ['with drafts', {}],
  ...(isFullRun ? [['with confirmed orders', { order_state: 'confirmed' }] as const] : []),
] as const;

describe.each(modes)('the Odoo connector against the stand-in, %s', (_, more) => {
  let erp: OdooStandIn;
  let key: string;

  beforeAll(async () => {
    erp = await startStandIn();
    erp.installed.product(10, 'A lot of an event', productCode, 1);
    // The kit's documents have these currencies.
    for (const name of ['JPY', 'KWD'])
      for (const row of erp.rows.all('res.currency'))
        if (row['name'] === name) erp.rows.update('res.currency', row, { active: true }, 1);
    key = erp.newKey(users.connector);
  });
  afterAll(() => erp.close());

  const tests = conformance({
    ...odooTarget({
      get reader() {
        return readerOfStandIn(erp);
      },
      address: () => erp.url,
      settings: (url) => ({
        url,
        database: databaseName,
        api_key: key ?? 'unknown',
        product: productCode,
        batch_size: 5,
        read_page: 50,
        // The kit writes awards without their suppliers.
        missing_supplier: 'create',
        ...more,
      }),
    }),
    verified: 'recorded behaviour',
    against: 'stand-in for Odoo 19',
    idle: () => erp.idle(),
    // No login renews a key: the connector reports the refusal, and a person makes a new key.
    expireLogin: async () => erp.refuseOnce(),
    ...(isFullRun ? {} : { faultPoints: 1, faultKinds: ['award'] }),
  });
  for (const { title, run } of isFullRun ? tests : tests.filter(isOrdinary)) test(title, run, checkTimeoutMs);
});
