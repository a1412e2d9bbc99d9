/** The conformance kit against a real Tryton; what it holds is asked of it with a client of its own. */
import { randomUUID } from 'node:crypto';
import type { Document, RecordOf, RequisitionRecord, SupplierRecord } from 'sourcing-bridge/connector';
import { conformance, type HeldObject } from 'sourcing-bridge/connector/testing';
import { beforeAll, test } from 'vitest';
import tryton from '../../../connectors/tryton/index.ts';
import { describeTryton, startTestTryton } from '../../tryton/tryton-in-tests.ts';
import { date, decimal, type TrytonClient, type TrytonValue } from '../../tryton/tryton-rpc.ts';
import { type TrytonDatabase, type TrytonServer, trytonUsers } from '../../tryton/tryton-server.ts';

const backend = process.env['TRYTON_BACKEND'];
const against = backend === 'postgresql' ? 'Tryton 6.0 on PostgreSQL' : 'Tryton 6.0 on SQLite';
/** Where a run is for Tryton (TRYTON_BACKEND is set), every kind meets every fault; else those that matter most. */
const isForTryton = backend !== undefined;

describeTryton('the Tryton connector', () => {
  let server: TrytonServer;
  let database: TrytonDatabase;
  let admin: TrytonClient;

  beforeAll(async () => {
    server = await startTestTryton();
    database = await server.newDatabase();
    admin = await database.logIn('admin');
    // What the kit's documents need beyond the seed.
    const kwd = { code: 'KWD', name: 'Kuwaiti Dinar', symbol: 'KD', digits: 3, rounding: decimal('0.001') };
    await admin.create('currency.currency', [kwd]);
    for (const [model, field] of [
      ['purchase.purchase', 'description'],
      ['purchase.request.quotation.line', 'description'],
      ['ir.attachment', 'name'],
    ])
      await forbid(admin, model as string, field as string);
  });

  const target = {
    connector: tryton,
    verified: 'real server' as const,
    against,
    proxy: { protocol: 'http' as const, address: () => server.url },
    settings: (url: string) => ({
      url,
      database: database.name,
      user: trytonUsers.connector.login,
      password: trytonUsers.connector.password,
      product: 'LOT',
      batch_size: 5,
      read_page: 50,
    }),
    held: (document: Document) => heldIn(admin, document),
    adapt,
    poison,
    expireLogin: async () => database.expireSessions('connector'),
    changeRecord: async <Stream extends 'supplier' | 'requisition'>(
      stream: Stream,
      name: string,
      archived: boolean,
    ) => {
      const made = stream === 'supplier' ? changeSupplier(admin, name, archived) : changeRequisition(database, name);
      return (await made) as RecordOf<Stream>;
    },
  };

  const tests = conformance({
    ...target,
    ...(isForTryton ? { faultPoints: 6 } : { faultPoints: 2, faultKinds: ['supplier', 'award'] }),
  });
  for (const { title, run } of tests) test(title, run, patienceMs);
});

/** The kit kills and cuts at each request of a write, and each time looks at what the server holds. */
const patienceMs = 300_000;

/** Tryton refuses tabs in names, and the connector writes blanks for them. */
function adapt(document: Document): Document {
  return JSON.parse(JSON.stringify(document).replaceAll(String.raw`\t`, ' ')) as Document;
}

const word = 'POISON';

/** As an administrator forbids things in Tryton: by a rule for everybody. */
async function forbid(admin: TrytonClient, model: string, field: string): Promise<void> {
  const [one] = await admin.search('ir.model', [['model', '=', model]], ['id']);
  const domain = JSON.stringify([['OR', [field, '=', null], [field, 'not like', `%${word}%`]]]);
  await admin.create('ir.rule.group', [
    {
      name: `No ${word}`,
      model: one.id,
      global_p: true,
      perm_read: false,
      perm_write: true,
      perm_create: true,
      rules: [['create', [{ domain }]]],
    },
  ]);
}

function poison(document: Document): Document {
  switch (document.kind) {
    case 'supplier':
      return { ...document, fields: { identifier_eu_vat: 'DE123' } };
    case 'quotation':
      return { ...document, lines: document.lines.map((line) => ({ ...line, fields: { description: word } })) };
    case 'file':
      return document;
    default:
      return { ...document, event: { ...document.event, name: word } };
  }
}

async function heldIn(admin: TrytonClient, document: Document): Promise<HeldObject[]> {
  const code = codeOf(document);
  switch (document.kind) {
    case 'supplier': {
      const found = await admin.search(
        'party.party',
        [['code', '=', code]],
        ['name', 'active', 'contact_mechanisms.name', 'contact_mechanisms.value'],
        { active_test: false },
      );
      return found.map((party) => ({
        reference: `party.party,${party.id}`,
        document: {
          name: party.name,
          archived: !party.active,
          contacts: party['contact_mechanisms.'].map(({ name, value }: TrytonValue) => ({ name, email: value })),
        },
      }));
    }
    case 'award': {
      const domain = [
        ['party.code', '=', code],
        ['state', '!=', 'cancelled'],
      ];
      const lines = ['description', 'quantity', 'unit_price', 'note'].map((name) => `lines.${name}`);
      const fields = ['description', 'party.name', 'party.code', 'currency.code', ...lines];
      return (await admin.search('purchase.purchase', domain, fields)).map((purchase) => ({
        reference: `purchase.purchase,${purchase.id}`,
        document: {
          event: { name: purchase.description },
          supplier: { external_id: purchase['party.'].code, name: purchase['party.'].name },
          currency: purchase['currency.'].code,
          lines: purchase['lines.'].map(({ description, quantity, unit_price, note }: TrytonValue) => ({
            lot: description,
            quantity: String(quantity),
            unit_price,
            cost: /^Cost: (\S+)/mu.exec(note)?.[1],
          })),
        },
      }));
    }
    case 'quotation': {
      const domain = [
        ['supplier.code', '=', code],
        ['state', 'not in', ['cancelled', 'rejected']],
      ];
      const lines = ['description', 'quantity', 'unit_price', 'currency.code'].map((name) => `lines.${name}`);
      const found = await admin.search('purchase.request.quotation', domain, [
        'supplier.name',
        'supplier.code',
        ...lines,
      ]);
      return found.map((quotation) => ({
        reference: `purchase.request.quotation,${quotation.id}`,
        document: {
          supplier: { external_id: quotation['supplier.'].code, name: quotation['supplier.'].name },
          currency: quotation['lines.'][0]['currency.'].code,
          lines: quotation['lines.'].map(({ description, quantity, unit_price }: TrytonValue) => ({
            lot: description,
            quantity: String(quantity),
            unit_price,
          })),
        },
      }));
    }
    case 'rfi-answers':
    case 'file': {
      const [party] = await admin.search('party.party', [['code', '=', code]], ['id']);
      if (!party) return [];
      const domain = [['resource', '=', `party.party,${party.id}`]];
      const found = await admin.search('ir.attachment', domain, ['name', 'description', 'data']);
      return found.map(({ id, description, data }) => ({
        reference: `ir.attachment,${id}`,
        document:
          document.kind === 'file'
            ? { question: { text: description.split('\n')[1].replace(/^1\.2 /u, '') } }
            : { lines: answersIn(data.toString('utf8')) },
        ...(document.kind === 'file' ? { bytes: data } : {}),
      }));
    }
    default:
      throw new Error(`The connector takes no ${document.kind}.`);
  }
}

function codeOf(document: Document): string {
  if (document.kind === 'supplier') return document.key;
  if (document.kind === 'sourcing-event') return '';
  return document.supplier?.external_id ?? document.supplier?.id ?? '';
}

function answersIn(page: string): unknown[] {
  const rows = page.matchAll(/<tr id="(.*?)">(.*?)<\/tr>/gsu);
  return [...rows].map(([, id, row = '']) => {
    const [identifier, text, answer = '', comment] = [...row.matchAll(/<td>(.*?)<\/td>/gsu)].map(
      ([, cell = '']) => cell,
    );
    const value = /<span class="value">(.*?)<\/span>/su.exec(answer)?.[1];
    return {
      question: { id: plain(id), identifier: plain(identifier), text: plain(text) },
      ...(value === undefined ? {} : { value: plain(value) }),
      options: [...answer.matchAll(/<li>(.*?)<\/li>/gsu)].map(([, option]) => ({ value: plain(option) })),
      ...(comment === '' ? {} : { comment: plain(comment) }),
    };
  });
}

function plain(html = ''): string {
  return html.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}

async function changeSupplier(admin: TrytonClient, name: string, archived: boolean): Promise<SupplierRecord> {
  const code = `S-${randomUUID()}`;
  const mechanisms = [['create', [{ type: 'email', value: 'sales@example.com', name: 'Sales' }]]];
  const addresses = [['create', [{ street: 'ul. Długa 1', postal_code: '00-001', city: 'Warszawa' }]]];
  await admin.create('party.party', [{ name, code, active: !archived, contact_mechanisms: mechanisms, addresses }]);
  return {
    external_id: code,
    name,
    archived,
    fields: { street: 'ul. Długa 1', postal_code: '00-001', city: 'Warszawa' },
    contacts: [{ name: 'Sales', email: 'sales@example.com' }],
  };
}

/** Approved, as the employee and her superior do it. */
async function changeRequisition(database: TrytonDatabase, name: string): Promise<RequisitionRecord> {
  const requester = await database.logIn('requester');
  const [product] = await requester.search('product.product', [['code', '=', 'STEEL']], ['default_uom']);
  const [employee] = await requester.search('company.employee', [], ['id']);
  const [requisition] = await requester.create('purchase.requisition', [
    {
      description: name,
      employee: employee.id,
      supply_date: date('2030-03-31'),
      lines: [
        ['create', [{ product: product.id, unit: product.default_uom, quantity: 2.5, unit_price: decimal('1.8750') }]],
      ],
    },
  ]);
  await requester.call('purchase.requisition', 'wait', [[requisition]]);
  await requester.call('purchase.requisition', 'approve', [[requisition]]);
  const [made] = await requester.search('purchase.requisition', [['id', '=', requisition]], ['number']);
  return {
    reference_id: made.number,
    name,
    description: name,
    requested_by: 'Rita Requester',
    needed_by: '2030-03-31T00:00:00.000000Z',
    tags: [{ name: 'Warehouse', value: 'Warehouse' }],
    items: [{ name: '[STEEL] Sheet steel', quantity: '2.5', unit: 'kg', target_price: '1.875', currency: 'EUR' }],
    open: true,
  };
}
