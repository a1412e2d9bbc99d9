/**
 * The function imports that the stub has. Whether one exists, its method and its parameters are SAP's own (see
 * `client-operations.ts`); what it does is written here after SAP's documentation.
 */
import type { Entity, Refusal } from './business-rules.ts';
import type { FunctionImport, ServiceOperations } from './client-operations.ts';

type Ask = (method: string, path: string, body?: object) => Promise<Entity>;
type Result = { readonly status: number; readonly entity: Entity } | Refusal;

/** A request for quotation with such a number is there when it is asked for, with the items 10, 20 and 30. */
export const sampleRfqs = '79';

const quotations = 'API_QTN_PROCESS_SRV';
const attachments = 'API_CV_ATTACHMENT_SRV';

/** Undefined for a path that is no function import of the service. */
export function functionImports(operations: ServiceOperations, ask: Ask, nextQuotation: () => string) {
  async function makeRfq(number: string): Promise<Entity> {
    return ask('POST', 'API_RFQ_PROCESS_SRV/A_RequestForQuotation', {
      RequestForQuotation: number,
      DocumentCurrency: 'EUR',
      to_RequestForQuotationItem: ['10', '20', '30'].map((RequestForQuotationItem) => ({
        RequestForQuotation: number,
        RequestForQuotationItem,
        PurchasingDocumentItemText: `Item ${RequestForQuotationItem}`,
        ScheduleLineOrderQuantity: '1',
        OrderQuantityUnit: 'PC',
      })),
    });
  }

  async function createFromRfq({ RequestForQuotation: number = '', Supplier = '' }: Texts): Promise<Result> {
    const path = `API_RFQ_PROCESS_SRV/A_RequestForQuotation('${number}')?$expand=to_RequestForQuotationItem&$format=json`;
    const rfq = await ask('GET', path).catch(async () => (number.startsWith(sampleRfqs) ? makeRfq(number) : undefined));
    if (!rfq) return { status: 400, message: `Request for quotation ${number} does not exist` };
    const supplier = await ask('GET', `API_BUSINESS_PARTNER/A_Supplier('${Supplier}')?$format=json`).catch(
      (): Entity => ({}),
    );
    if (supplier['PurchasingIsBlocked'])
      return { status: 400, message: `Supplier ${Supplier} is blocked for purchasing` };
    const entity = await ask('POST', `${quotations}/A_SupplierQuotation`, {
      SupplierQuotation: nextQuotation(),
      RequestForQuotation: number,
      Supplier,
      DocumentCurrency: rfq['DocumentCurrency'],
      QTNLifecycleStatus: '01',
      to_SupplierQuotationItem: (rfq['to_RequestForQuotationItem'].results as Entity[]).map((item) => ({
        SupplierQuotationItem: item['RequestForQuotationItem'],
        RequestForQuotation: number,
        RequestForQuotationItem: item['RequestForQuotationItem'],
        PurchasingDocumentItemText: item['PurchasingDocumentItemText'],
        ScheduleLineOrderQuantity: item['ScheduleLineOrderQuantity'],
        OrderQuantityUnit: item['OrderQuantityUnit'],
        NetPriceAmount: '0',
        NetPriceQuantity: '1',
        AwardedQuantity: '0',
      })),
    });
    return { status: 200, entity: { CreateFromRFQ: { SupplierQuotation: entity['SupplierQuotation'], Supplier } } };
  }

  async function submit({ SupplierQuotation: number = '' }: Texts): Promise<Result> {
    await ask('PATCH', `${quotations}/A_SupplierQuotation('${number}')`, { QTNLifecycleStatus: '02' });
    return { status: 200, entity: { Submit: { QTNLifecycleStatus: '02' } } };
  }

  async function getAllOriginals(given: Texts): Promise<Result> {
    const names = ['BusinessObjectTypeName', 'LinkedSAPObjectKey'];
    const filter = names.map((name) => `${name} eq '${given[name] ?? ''}'`).join(' and ');
    const path = `${attachments}/AttachmentContentSet?$filter=${encodeURIComponent(filter)}&$format=json`;
    return { status: 200, entity: await ask('GET', path) };
  }

  const effects: Readonly<Record<string, (given: Texts) => Promise<Result>>> = {
    CreateFromRFQ: createFromRfq,
    Submit: submit,
    GetAllOriginals: getAllOriginals,
  };

  return async (service: string, name: string, method: string, query: URLSearchParams): Promise<Result | undefined> => {
    const described = operations[service]?.functions[name];
    if (!described) return undefined;
    if (described.method !== method) return { status: 405, message: `Method ${method} is not allowed for ${name}` };
    const given: Record<string, string> = {};
    for (const [parameter, value] of query) {
      if (/^(?:\$format|sap-client|sap-language)$/.test(parameter)) continue;
      const text = textOf(described, parameter, value);
      if (text === undefined) return { status: 400, message: `Invalid parameter ${parameter} of ${name}` };
      given[parameter] = text;
    }
    const effect = effects[name];
    return effect ? effect(given) : { status: 501, message: `The stub has no ${name}` };
  };
}

type Texts = Readonly<Record<string, string | undefined>>;

/** Undefined for a parameter that SAP does not have, or that is not written as its type is. */
function textOf({ parameters }: FunctionImport, name: string, value: string): string | undefined {
  switch (parameters[name]) {
    case 'Edm.String':
      return /^'(.*)'$/s.exec(value)?.[1]?.replaceAll("''", "'");
    case 'Edm.DateTime':
      return /^datetime'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)'$/.exec(value)?.[1];
    default:
      return undefined;
  }
}
