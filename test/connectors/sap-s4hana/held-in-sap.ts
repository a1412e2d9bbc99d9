/** What the stub of SAP holds for a document, asked of SAP's OData server itself, past the connector and the stub's rules. */
import type { AwardDocument, Document, QuotationDocument, SupplierDocument } from 'sourcing-bridge/connector';
import type { HeldObject } from 'sourcing-bridge/connector/testing';
import { externalNumber, keyMarker, shortMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { answersIn, plainText } from '../../harness/answers-in-page.ts';
import type { Entity } from '../../sap/business-rules.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';

/** What awards become, as the settings have it. */
export type Awards = 'purchase-orders' | 'contracts' | 'info-records';

export async function heldIn(system: SapSystem, document: Document, awards: Awards): Promise<HeldObject[]> {
  switch (document.kind) {
    case 'supplier':
      return heldPartners(system, document);
    case 'award':
      return { 'purchase-orders': heldOrders, contracts: heldContracts, 'info-records': heldPrices }[awards](
        system,
        document,
      );
    case 'quotation':
      return heldQuotations(system, document);
    default:
      return heldAttachments(system, document);
  }
}

const externalOf = (number: string) => suppliers.find((supplier) => supplier.number === number)?.external;

async function list(system: SapSystem, path: string, filter: string, expand: string): Promise<Entity[]> {
  const query = `$filter=${encodeURIComponent(filter)}${expand === '' ? '' : `&$expand=${expand}`}&$format=json`;
  return (await system.ask('GET', `${path}?${query}`))['results'];
}

/** Lots in SAP are 40 characters of the item's text, or the number of an item: the document says which lot it is. */
async function heldContracts(system: SapSystem, { key, lines }: AwardDocument): Promise<HeldObject[]> {
  const filter = `CorrespncExternalReference eq '${keyMarker(key)}'`;
  const path = 'API_PURCHASECONTRACT_PROCESS_SRV/A_PurchaseContract';
  const contracts = await list(system, path, filter, 'to_PurchaseContractItem');
  return contracts.map((contract) => ({
    reference: `PurchaseContract/${contract['PurchaseContract']}`,
    document: {
      supplier: { external_id: externalOf(contract['Supplier']) },
      currency: contract['DocumentCurrency'],
      lines: (contract['to_PurchaseContractItem'].results as Entity[]).map((item) => ({
        lot: lines.find(({ lot }) => lot.startsWith(item['PurchaseContractItemText']))?.lot ?? 'another lot',
        quantity: item['TargetQuantity'],
        unit_price: perPiece(item['ContractNetPriceAmount'], item['NetPriceQuantity']),
      })),
    },
  }));
}

async function heldPrices(system: SapSystem, { key, lines }: AwardDocument): Promise<HeldObject[]> {
  const organizations = await list(
    system,
    'API_INFORECORD_PROCESS_SRV/A_PurgInfoRecdOrgPlantData',
    `SupplierQuotation eq '${shortMarker(key)}'`,
    '',
  );
  if (organizations.length === 0) return [];
  const held = [];
  for (const { Supplier, Material } of organizations) {
    const conditions = await list(
      system,
      'API_PURGPRCGCONDITIONRECORD_SRV/A_PurgPrcgCndnRecdValidity',
      `Supplier eq '${Supplier}' and Material eq '${Material}'`,
      'to_PurgPrcgConditionRecord',
    );
    for (const { to_PurgPrcgConditionRecord: price } of conditions)
      held.push({
        lot: lines.find(({ fields }) => fields?.['material'] === Material)?.lot ?? 'another lot',
        unit_price: perPiece(price.ConditionRateValue, price.ConditionQuantity),
        currency: price.ConditionRateValueUnit,
      });
  }
  return [
    {
      reference: `PurchasingInfoRecords/${shortMarker(key)}`,
      document: {
        supplier: { external_id: externalOf(organizations[0]?.['Supplier']) },
        currency: held[0]?.currency,
        lines: held.map(({ lot, unit_price }) => ({ lot, unit_price })),
      },
    },
  ];
}

async function heldQuotations(system: SapSystem, { key, lines }: QuotationDocument): Promise<HeldObject[]> {
  const filter = `SupplierQuotationExternalID eq '${shortMarker(key)}'`;
  const quotations = await list(system, 'API_QTN_PROCESS_SRV/A_SupplierQuotation', filter, 'to_SupplierQuotationItem');
  return quotations.map((quotation) => ({
    reference: `SupplierQuotation/${quotation['SupplierQuotation']}`,
    document: {
      supplier: { external_id: externalOf(quotation['Supplier']) },
      currency: quotation['DocumentCurrency'],
      lines: (quotation['to_SupplierQuotationItem'].results as Entity[])
        .filter(({ NetPriceAmount }) => Number(NetPriceAmount) !== 0)
        .map((item) => ({
          lot:
            lines.find(({ fields }) => fields?.['rfq_item'] === item['RequestForQuotationItem'])?.lot ?? 'another lot',
          quantity: item['ScheduleLineOrderQuantity'],
          unit_price: perPiece(item['NetPriceAmount'], item['NetPriceQuantity']),
        })),
    },
  }));
}

async function heldAttachments(system: SapSystem, document: Document): Promise<HeldObject[]> {
  const mark = keyMarker(`${document.kind}/${document.key}`);
  const filter = `substringof('[${mark}',FileName)`;
  const attachments = await list(system, 'API_CV_ATTACHMENT_SRV/AttachmentContentSet', filter, '');
  return Promise.all(
    attachments.map(async ({ LogicalDocument, LinkedSAPObjectKey }) => {
      const bytes = system.contentOf(LogicalDocument);
      if (!bytes) throw new Error(`The stub has no bytes of ${LogicalDocument}.`);
      const reference = `Attachment/${mark}`;
      if (document.kind === 'file')
        return { reference, document: { supplier: await partnerAt(system, LinkedSAPObjectKey) }, bytes };
      const page = Buffer.from(bytes).toString('utf8');
      const name = plainText(/<h1>(.*?)<\/h1>/su.exec(page)?.[1]);
      return {
        reference,
        document: document.kind === 'rfi-answers' ? { lines: answersIn(page) } : { event: { name } },
      };
    }),
  );
}

/** What SAP has at the number to which something is attached: all that it keeps of a file's document beside its name. */
async function partnerAt(system: SapSystem, key: string) {
  const partner = await system.ask(
    'GET',
    `API_BUSINESS_PARTNER/A_BusinessPartner('${key.replace(/^0+/, '')}')?$format=json`,
  );
  return { external_id: partner['BusinessPartnerIDByExtSystem'], name: partner['OrganizationBPName1'] };
}

async function heldPartners(system: SapSystem, { key }: SupplierDocument): Promise<HeldObject[]> {
  const { results } = await system.ask(
    'GET',
    `API_BUSINESS_PARTNER/A_BusinessPartner?$filter=BusinessPartnerIDByExtSystem%20eq%20'${externalNumber(key)}'&$expand=to_BusinessPartnerAddress/to_EmailAddress,to_Supplier&$format=json`,
  );
  return (results as Entity[]).map((partner) => ({
    reference: `BusinessPartner/${partner['BusinessPartner']}`,
    document: {
      name: [1, 2, 3, 4].flatMap((n) => partner[`OrganizationBPName${n}`] || []).join(' '),
      archived: partner['to_Supplier'].PurchasingIsBlocked === true,
      contacts: (partner['to_BusinessPartnerAddress'].results[0].to_EmailAddress.results as Entity[]).map((email) => ({
        name: email['AddressCommunicationRemarkText'],
        email: email['EmailAddress'],
      })),
    },
  }));
}

async function heldOrders(system: SapSystem, { key }: AwardDocument): Promise<HeldObject[]> {
  const { results } = await system.ask(
    'GET',
    `API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder?$filter=CorrespncExternalReference%20eq%20'${keyMarker(key)}'&$expand=to_PurchaseOrderItem/to_PurchaseOrderItemNote,to_PurchaseOrderNote&$format=json`,
  );
  return (results as Entity[])
    .filter((order) => !isDeleted(order))
    .map((order) => ({
      reference: `PurchaseOrder/${order['PurchaseOrder']}`,
      document: {
        event: { name: /^Sourcing event: (.*?) \(/.exec(order['to_PurchaseOrderNote'].results[0].PlainLongText)?.[1] },
        supplier: { external_id: suppliers.find(({ number }) => number === order['Supplier'])?.external },
        currency: order['DocumentCurrency'],
        lines: (order['to_PurchaseOrderItem'].results as Entity[])
          .filter(({ PurchasingDocumentDeletionCode }) => !PurchasingDocumentDeletionCode)
          .map((item) => ({
            lot: item['to_PurchaseOrderItemNote'].results[0].PlainLongText,
            quantity: item['OrderQuantity'],
            unit_price: perPiece(item['NetPriceAmount'], item['NetPriceQuantity']),
          })),
      },
    }));
}

/** KBA 3070935: the header's code stays empty when all items are deleted. */
function isDeleted({ to_PurchaseOrderItem: items }: Entity): boolean {
  return (items.results as Entity[]).every(({ PurchasingDocumentDeletionCode: code }) => code === 'L');
}

/** The price of one: the amount with its point moved, without a calculation in floating point. */
function perPiece(amount: string, per: string): string {
  const [whole = '0', fraction = ''] = amount.split('.');
  const places = per.length - 1;
  const digits = whole.padStart(places + 1, '0');
  return `${digits.slice(0, digits.length - places)}.${digits.slice(digits.length - places)}${fraction}`;
}
