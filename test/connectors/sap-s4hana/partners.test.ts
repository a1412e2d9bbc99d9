/** Suppliers as business partners of SAP, against the stub; and what `check` reports. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Operation, Outcome, Session } from '#connector/connector.ts';
import type { SupplierDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { differencesOf, neededFields } from '../../../connectors/sap-s4hana/metadata.ts';
import { nameParts } from '../../../connectors/sap-s4hana/partner-values.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';
import { never, operationOf } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

function supplierOf(more: Partial<SupplierDocument> = {}): SupplierDocument {
  const key = randomUUID();
  return { kind: 'supplier', key, external_id: key, name: 'Acme', attributes: [], contacts: [], ...more };
}

test('a name is divided at blanks into four fields of 40 characters, and a longer one is refused', () => {
  const long = 'Gesellschaft für Schrauben, Muttern, Bolzen und andere Verbindungselemente mbH & Co. KG';
  const parts = nameParts(long);
  expect(Object.values(parts).every((part) => part.length <= 40)).toBe(true);
  expect(Object.values(parts).filter(Boolean).join(' ')).toBe(long);
  expect(nameParts('x'.repeat(41))).toMatchObject({ OrganizationBPName1: 'x'.repeat(40), OrganizationBPName2: 'x' });
  expect(() => nameParts('x'.repeat(161))).toThrow('OrganizationBPName1 to 4');
});

test('a description that lacks a field, or has a shorter one, is reported by the field’s name', () => {
  const edmx = (item: string) =>
    `<EntityType Name="A_PurchaseOrderType"><Property Name="PurchaseOrder" MaxLength="10"/></EntityType>
     <EntityType Name="A_PurchaseOrderItemType">${item}</EntityType>
     <EntitySet Name="A_PurchaseOrder" EntityType="X.A_PurchaseOrderType"/>
     <EntitySet Name="A_PurchaseOrderItem" EntityType="X.A_PurchaseOrderItemType"/>`;
  const found = differencesOf(
    'API_PURCHASEORDER_PROCESS_SRV',
    edmx(
      '<Property Name="SupplierMaterialNumber" MaxLength="22"/><Property Name="Material" Type="Edm.String" MaxLength="18"/>',
    ),
  );
  expect(found).toContain('A_PurchaseOrder.CorrespncExternalReference is missing');
  expect(found).toContain('A_PurchaseOrderItem.SupplierMaterialNumber has 22 characters instead of 35');
  // Long numbers of materials may be switched off.
  expect(found.join()).not.toContain('A_PurchaseOrderItem.Material ');
  expect(found).toContain('A_PurchaseOrderNote is missing');
  expect(found).not.toContain('A_PurchaseOrder.PurchaseOrder is missing');
});

describeSap('a business partner', () => {
  let system: SapSystem;
  let session: Session;
  beforeAll(async () => {
    system = await startTestSap();
    const settings = sap.settings.parse(
      sapSettings(system.url, { supplier_country: 'DE', reconciliation_account: '21100000' }),
    );
    session = await sap.open(settings, testContext().context);
    closeAtEnd(() => session.close());
  });

  async function write(operation: Operation): Promise<Outcome> {
    const [outcome] = await session.write([operation], never);
    return outcome as Outcome;
  }

  async function partner(number: string): Promise<Entity> {
    return system.ask(
      'GET',
      `${service}/A_BusinessPartner('${number}')?$expand=to_BusinessPartnerAddress/to_EmailAddress,to_BusinessPartnerRole,to_BusinessPartnerTax,to_Supplier/to_SupplierCompany,to_Supplier/to_SupplierPurchasingOrg&$format=json`,
    );
  }

  test('is made with roles, address, tax number, company code and purchasing organization in one request', async () => {
    system.requests();
    const document = supplierOf({
      contacts: [{ name: 'Ada', email: 'ada@example.com' }],
      fields: { city: 'Hamburg', postal_code: '20095', tax_number_DE0: 'DE123456789', currency: 'EUR' },
    });
    const outcome = await write(operationOf('create', document));
    expect(outcome).toMatchObject({ status: 'created' });
    expect(system.requests()).toEqual([
      `GET ${service}/`,
      `GET ${service}/A_BusinessPartner`,
      `POST ${service}/A_BusinessPartner`,
      `GET ${service}/A_BusinessPartner`,
    ]);
    const held = await partner((outcome as { reference: string }).reference.replace('BusinessPartner/', ''));
    expect(held['to_BusinessPartnerRole'].results.map((role: Entity) => role['BusinessPartnerRole'])).toEqual([
      'FLVN00',
      'FLVN01',
    ]);
    expect(held['to_BusinessPartnerAddress'].results).toMatchObject([{ CityName: 'Hamburg', Country: 'DE' }]);
    expect(held['to_BusinessPartnerTax'].results).toMatchObject([{ BPTaxType: 'DE0', BPTaxNumber: 'DE123456789' }]);
    expect(held['to_Supplier'].to_SupplierCompany.results).toMatchObject([
      { CompanyCode: '1010', ReconciliationAccount: '21100000' },
    ]);
    expect(held['to_Supplier'].to_SupplierPurchasingOrg.results).toMatchObject([
      { PurchasingOrganization: '1010', PurchaseOrderCurrency: 'EUR' },
    ]);
  });

  const readBack = async (document: SupplierDocument, reference: string | undefined) => {
    const [answer] = (await session.readBack?.([{ document, reference }], never)) ?? [];
    return answer?.status === 'held' ? answer.fields.filter(({ expected, held }) => expected !== held) : answer?.status;
  };

  test('is read back: what a person has changed is found, also under another number, and nothing else', async () => {
    const document = supplierOf({
      contacts: [{ name: 'Ada', email: 'ada@example.com' }],
      fields: { city: 'Hamburg', tax_number_DE0: 'DE123456789', search_term: 'acme' },
    });
    const outcome = await write(operationOf('create', document));
    const { reference } = outcome as { reference: string };
    const path = `${service}/A_BusinessPartner('${reference.replace('BusinessPartner/', '')}')`;
    expect(await readBack(document, reference)).toEqual([]);
    await system.ask('PATCH', path, { SearchTerm1: 'ACME', OrganizationBPName2: 'Ltd' });
    expect(await readBack(document, undefined)).toEqual([
      { name: 'OrganizationBPName2', expected: undefined, held: 'Ltd' },
    ]);
    await system.ask('PATCH', path, { BusinessPartnerIDByExtSystem: 'BY-HAND', OrganizationBPName2: '' });
    expect(await readBack(document, reference)).toMatchObject([
      { name: 'BusinessPartnerIDByExtSystem', held: 'BY-HAND' },
    ]);
    expect(await readBack(document, undefined)).toBe('missing');
    const amended = { ...document, contacts: [{ name: 'Ada L.', email: 'Ada@example.com' }] };
    expect(await readBack(amended, reference)).toContainEqual({
      name: 'emails[Ada@example.com].AddressCommunicationRemarkText',
      expected: 'Ada L.',
      held: 'Ada',
    });
  });

  test('that was in SAP before is taken over by its number, and what only SAP has stays', async () => {
    const [, { number }] = suppliers;
    await system.ask('POST', `${service}/A_BusinessPartnerAddress`, {
      BusinessPartner: number,
      AddressID: '77',
      CityName: 'Bonn',
      Country: 'DE',
      to_EmailAddress: [{ Person: '', OrdinalNumber: '001', EmailAddress: 'old@example.com' }],
    });
    const document = supplierOf({
      key: number,
      external_id: number,
      name: 'New name',
      contacts: [{ name: 'Bo', email: 'bo@example.com' }],
    });
    expect(await write(operationOf('create', document))).toEqual({
      status: 'updated',
      reference: `BusinessPartner/${number}`,
    });
    expect(await readBack(document, `BusinessPartner/${number}`)).toEqual([]);
    const held = await partner(number);
    expect(held['OrganizationBPName1']).toBe('New name');
    const [address] = held['to_BusinessPartnerAddress'].results;
    expect(address.CityName).toBe('Bonn');
    expect(address.to_EmailAddress.results.map((email: Entity) => email['EmailAddress']).sort()).toEqual([
      'bo@example.com',
      'old@example.com',
    ]);
    expect(await write(operationOf('amend', document, `BusinessPartner/${number}`))).toMatchObject({
      status: 'unchanged',
    });
  });

  test('that is there twice is not written, and both are named', async () => {
    for (const number of ['900001', '900002'])
      await system.ask('POST', `${service}/A_BusinessPartner`, {
        BusinessPartner: number,
        Supplier: number,
        OrganizationBPName1: 'Twin',
        BusinessPartnerIDByExtSystem: 'TWIN',
      });
    const outcome = await write(operationOf('create', supplierOf({ key: 'TWIN', external_id: 'TWIN' })));
    expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    expect(JSON.stringify(outcome)).toContain('900001, 900002');
  });

  test('check says which right is missing, and with all rights that SAP describes each field that is needed', async () => {
    // One more than the checks: orders have two versions, of which a system uses one.
    expect(Object.keys(neededFields)).toHaveLength(9);
    const all = await session.check();
    expect(all.filter(({ ok, message }) => !ok || !message.includes('describes all fields'))).toEqual([]);
    expect(all).toHaveLength(8);
    system.inject({ method: 'GET', path: `${service}/A_BusinessPartner`, status: 403, message: 'No authorization' });
    const lines = await session.check();
    expect(lines.filter(({ ok }) => !ok)).toMatchObject([
      { name: 'business partners', message: expect.stringContaining('SAP_COM_0008') },
    ]);
  });
});

describe('settings', () => {
  test.each([
    [{ user: undefined, password: undefined }, 'one login is set'],
    [{ password: undefined }, 'user and password are set together'],
    [{ client_certificate_file: 'client.pem' }, 'here are 2'],
  ])('%o are refused', (more, words) => {
    const given = sapSettings('https://sap.example.com', more);
    expect(JSON.stringify(sap.settings.safeParse(given).error)).toContain(words);
  });
});

const service = 'API_BUSINESS_PARTNER';
