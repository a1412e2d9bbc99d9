/**
 * The conformance kit against a real Odoo 19: ODOO_URL, ODOO_DB and ODOO_KEY (`npm run test:odoo`). Use a test database.
 * At the end, everything that the kit has made is deleted, or archived where Odoo does not let it be deleted.
 */
import type { Document } from 'sourcing-bridge/connector';
import { conformance } from 'sourcing-bridge/connector/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { odooTarget, productCode } from './conformance-target.ts';
import { type OdooReader, readerOfServer } from './odoo-reader.ts';

const { ODOO_URL: url = '', ODOO_DB: database = '', ODOO_KEY: key = '' } = process.env;
const isSet = url !== '' && database !== '' && key !== '';
/** Long: a real server is slow. */
const checkTimeoutMs = 600_000;
const missing = 'set ODOO_URL, ODOO_DB and ODOO_KEY to run it';

describe(`the Odoo connector against a real Odoo${isSet ? '' : ` (${missing})`}`, {
  skip: !isSet,
  timeout: checkTimeoutMs,
}, () => {
  const reader: OdooReader = readerOfServer({ url, database, key });
  /** The suppliers of the kit's documents: all that it makes hangs on them. */
  const codes = new Set<string>();
  const agreements = new Set<string>();
  let currencies: readonly string[] = ['EUR'];
  let product: number | undefined;

  beforeAll(async () => {
    currencies = (await reader.search('res.currency', { active: true }, ['name'])).map(({ name }) => String(name));
    const [held] = await reader.search('product.product', { default_code: productCode }, ['active']);
    if (held?.['active']) return;
    // An earlier run has archived it.
    if (held) await reader.write('product.product', held.id, { active: true });
    product =
      held?.id ?? (await reader.create('product.product', { name: 'A lot of an event', default_code: productCode }));
  });

  afterAll(async () => {
    for (const code of codes) await removeSupplier(reader, code);
    for (const name of agreements)
      for (const { id } of await reader.search('purchase.requisition', { name }, ['state'])) {
        await reader.call('purchase.requisition', 'action_cancel', [id]);
        await reader.call('purchase.requisition', 'unlink', [id]);
      }
    if (product !== undefined) await reader.write('product.product', product, { active: false });
  }, checkTimeoutMs);

  const target = odooTarget({
    reader,
    address: () => url,
    settings: (address) => ({
      url: address,
      database,
      api_key: key,
      product: productCode,
      batch_size: 5,
      // The kit writes awards without their suppliers.
      missing_supplier: 'create',
    }),
  });
  const tests = conformance({
    ...target,
    verified: 'real server',
    against: 'Odoo 19',
    adapt: (document) => {
      const adapted = target.adapt(document);
      // Only an administrator may activate currencies.
      if (!('currency' in adapted) || currencies.includes(adapted.currency)) return remember(adapted);
      return remember({ ...adapted, currency: currencies[0] ?? 'EUR' });
    },
    changeRecord: async (stream, name, archived) => {
      const record = await target.changeRecord(stream, name, archived);
      if ('external_id' in record) codes.add(record.external_id);
      else agreements.add(record.reference_id);
      return record;
    },
    // As long as a request that was cut off may take in Odoo.
    idle: () => new Promise((resolve) => setTimeout(resolve, 1_500)),
    notApplicable: { 'expired login': 'an API key cannot be made to expire by its user, and is not renewed' },
    faultPoints: 2,
  });
  for (const { title, run } of tests) test(title, run);

  function remember(document: Document): Document {
    if (document.kind === 'supplier') codes.add(document.key);
    else if ('supplier' in document && document.supplier)
      codes.add(document.supplier.external_id ?? document.supplier.id);
    return document;
  }
});

/** Deletes what hangs on the supplier's contact, then the contact; one that Odoo keeps is archived. */
async function removeSupplier(reader: OdooReader, code: string): Promise<void> {
  for (const { id } of await reader.search('res.partner', { ref: code }, ['name'])) {
    for (const order of await reader.search('purchase.order', { partner_id: id }, ['state'])) {
      if (order['state'] !== 'cancel') await reader.call('purchase.order', 'button_cancel', [order.id]);
      await reader.call('purchase.order', 'unlink', [order.id]);
    }
    const on = { res_model: 'res.partner', res_id: id };
    const attachments = await reader.search('ir.attachment', on, ['name']);
    if (attachments.length > 0)
      await reader.call(
        'ir.attachment',
        'unlink',
        attachments.map((attachment) => attachment.id),
      );
    await reader.call('res.partner', 'unlink', [id]).catch(() => reader.call('res.partner', 'action_archive', [id]));
  }
}
