/** The rules of SAP's purchasing that the stub keeps: what it refuses, what it numbers, what it marks as deleted. */
import type { IncomingHttpHeaders } from 'node:http';

// oxlint-disable-next-line typescript/no-explicit-any -- SAP's JSON, of which each test knows its part
export type Entity = Record<string, any>;

export interface Refusal {
  readonly status: number;
  readonly message: string;
  readonly code?: string;
  readonly details?: readonly object[];
}

interface Write {
  readonly method: string;
  readonly service: string;
  readonly set: string;
  readonly key: Readonly<Record<string, string>> | undefined;
  readonly navigation: string | undefined;
  readonly entity: Entity;
  readonly bytes: Buffer;
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
}

/** Done by the rule itself; anything else goes to SAP's OData server. */
type Performed = { readonly status: number; readonly entity?: Entity } | Refusal | undefined;

type Ask = (method: string, path: string, body?: object) => Promise<Entity>;

const orders = 'API_PURCHASEORDER_PROCESS_SRV';
const requisitions = 'API_PURCHASEREQ_PROCESS_SRV';

const mandatory: Readonly<Record<string, readonly string[]>> = {
  A_PurchaseOrder: ['CompanyCode', 'PurchaseOrderType', 'Supplier', 'PurchasingOrganization', 'PurchasingGroup'],
  to_PurchaseOrderItem: ['OrderQuantity'],
  A_PurchaseContract: ['PurchaseContractType', 'Supplier', 'PurchasingOrganization', 'ValidityEndDate'],
  A_BusinessPartner: ['BusinessPartnerCategory', 'OrganizationBPName1'],
  A_PurchasingInfoRecord: ['Supplier', 'Material'],
  to_PurgInfoRecdOrgPlantData: ['PurchasingOrganization', 'Currency', 'NetPriceAmount'],
  A_PurgPrcgConditionRecord: ['ConditionTable', 'ConditionType', 'ConditionRateValue', 'ConditionRateValueUnit'],
};
const readOnly: Readonly<Record<string, readonly string[]>> = {
  A_PurchaseOrder: ['PurchasingDocumentDeletionCode', 'CreationDate', 'LastChangeDateTime', 'CreatedByUser'],
  A_PurchaseOrderItem: ['PurchasingDocumentDeletionCode', 'PurchaseOrder'],
  A_BusinessPartner: ['LastChangeDate', 'LastChangeTime', 'BusinessPartnerUUID'],
};
/** The header of each entity, whose deletion marks the document. */
const withoutEtag = new Set(['A_PurchaseOrderNote', 'A_PurchaseOrderItemNote', 'AttachmentContentSet']);

export function businessRules(ask: Ask) {
  const numbers = new Map<string, number>();
  /** The bytes of attachments, by LogicalDocument. */
  const contents = new Map<string, Buffer>();
  const next = (name: string, from: number) => {
    const number = (numbers.get(name) ?? from) + 1;
    numbers.set(name, number);
    return String(number);
  };

  async function refusalOf({ method, service, set, key, navigation, entity }: Write): Promise<Refusal | undefined> {
    const format = formatFault(entity);
    if (format !== undefined) return { status: 400, code: '/IWBEP/CM_MGW_RT/021', message: format };
    for (const name of readOnly[set] ?? [])
      if (navigation === undefined && name in entity)
        return { status: 400, code: '/IWBEP/CM_MGW_RT/022', message: `Property ${name} is read-only` };
    if (hasWrongTaxNumber(entity))
      return { status: 400, code: 'FSBP_TAX/001', message: 'Tax number WRONG is not valid for country DE' };
    if (service === requisitions && key) return refusalOfRequisition(key);
    if (method !== 'POST') return undefined;
    const missing = missingIn(entity, navigation ?? set);
    if (missing) return missing;
    if (key) return undefined;
    if (set === 'A_PurchaseOrder' || set === 'A_PurchaseContract') return refusalOfSupplier(entity);
    if (set === 'A_PurchasingInfoRecord') return refusalOfRecord(entity);
    return undefined;
  }

  /** SAP changes no item of a requisition that is deleted, nor its texts. */
  async function refusalOfRequisition(key: Readonly<Record<string, string>>): Promise<Refusal | undefined> {
    const { PurchaseRequisition, PurchaseRequisitionItem } = key;
    if (PurchaseRequisitionItem === undefined) return undefined;
    const path = `A_PurchaseRequisitionItem(PurchaseRequisition='${PurchaseRequisition}',PurchaseRequisitionItem='${PurchaseRequisitionItem}')`;
    const item = await ask('GET', `${requisitions}/${path}?$format=json`).catch(() => undefined);
    if (!item) return { status: 404, message: `Item ${PurchaseRequisitionItem} does not exist` };
    if (item['IsDeleted'])
      return {
        status: 400,
        code: '06/115',
        message: `Item ${PurchaseRequisitionItem} is deleted and cannot be changed`,
      };
    return undefined;
  }

  /** SAP has one info record for a supplier and material. */
  async function refusalOfRecord(entity: Entity): Promise<Refusal | undefined> {
    const { Supplier, Material } = entity;
    const filter = encodeURIComponent(`Supplier eq '${Supplier}' and Material eq '${Material}'`);
    const { results } = await ask(
      'GET',
      `API_INFORECORD_PROCESS_SRV/A_PurchasingInfoRecord?$filter=${filter}&$format=json`,
    );
    if (results.length > 0) return { status: 400, message: 'Info record already exists', code: '06/430' };
    return refusalOfSupplier(entity);
  }

  async function refusalOfSupplier({ Supplier, PurchasingOrganization }: Entity): Promise<Refusal | undefined> {
    const path = `API_BUSINESS_PARTNER/A_Supplier('${encodeURIComponent(String(Supplier))}')?$format=json`;
    const supplier = await ask('GET', path).catch(() => undefined);
    if (!supplier)
      return {
        status: 400,
        code: '06/321',
        message: `Supplier ${Supplier} not created by purchasing organization ${PurchasingOrganization}`,
      };
    if (supplier['PurchasingIsBlocked'])
      return { status: 400, code: '06/027', message: `Supplier ${Supplier} is blocked for purchasing` };
    return undefined;
  }

  /** What SAP does in another way than a plain insert, change or deletion. */
  async function perform(write: Write): Promise<Performed> {
    const { method, service, set, key } = write;
    if (set === 'AttachmentContentSet' && method === 'POST') return attach(write);
    if (service === 'API_QTN_PROCESS_SRV' && key) {
      const number = key['SupplierQuotation'] ?? Object.values(key)[0];
      const { QTNLifecycleStatus } = await ask('GET', `${service}/A_SupplierQuotation('${number}')?$format=json`);
      if (QTNLifecycleStatus !== '01')
        return { status: 400, message: `Supplier quotation ${number} was submitted`, code: 'MEQTN/010' };
    }
    if (service === orders && method === 'DELETE' && key) return markDeleted(set, key);
    return undefined;
  }

  /** Keeps the bytes beside the entity. */
  async function attach({ headers, bytes }: Write): Promise<Performed> {
    const { slug, businessobjecttypename: type, linkedsapobjectkey: object } = headers;
    if (slug === undefined || type === undefined || object === undefined)
      return { status: 400, message: 'Slug, BusinessObjectTypeName and LinkedSAPObjectKey are mandatory' };
    const id = next('attachment', 700_000_000);
    const entity = await ask('POST', 'API_CV_ATTACHMENT_SRV/AttachmentContentSet', {
      DocumentInfoRecordDocType: 'SL1',
      DocumentInfoRecordDocNumber: id.padStart(25, '0'),
      DocumentInfoRecordDocVersion: '00',
      DocumentInfoRecordDocPart: '000',
      LogicalDocument: id,
      ArchiveDocumentID: `ARCHIVE${id}`,
      LinkedSAPObjectKey: object,
      BusinessObjectTypeName: type,
      FileName: decodeURIComponent(String(slug)),
      FileSize: String(bytes.byteLength),
      MimeType: headers['content-type'],
    });
    contents.set(id, bytes);
    return { status: 201, entity };
  }

  /** SAP keeps what is deleted, with the code L. */
  async function markDeleted(set: string, key: Readonly<Record<string, string>>): Promise<Performed> {
    const [order = '', item = ''] =
      set === 'A_PurchaseOrder' ? Object.values(key) : [key['PurchaseOrder'], key['PurchaseOrderItem']];
    const mark = { PurchasingDocumentDeletionCode: 'L' };
    if (set === 'A_PurchaseOrderItem') {
      await ask('PATCH', `${orders}/A_PurchaseOrderItem(PurchaseOrder='${order}',PurchaseOrderItem='${item}')`, mark);
      return { status: 204 };
    }
    if (set !== 'A_PurchaseOrder') return undefined;
    const held = await ask('GET', `${orders}/A_PurchaseOrder('${order}')?$expand=to_PurchaseOrderItem&$format=json`);
    for (const { PurchaseOrderItem } of held['to_PurchaseOrderItem'].results as Entity[])
      await ask(
        'PATCH',
        `${orders}/A_PurchaseOrderItem(PurchaseOrder='${order}',PurchaseOrderItem='${PurchaseOrderItem}')`,
        mark,
      );
    await ask('PATCH', `${orders}/A_PurchaseOrder('${order}')`, mark);
    return { status: 204 };
  }

  /** Numbers, and what SAP fills in. */
  async function complete({ method, set, key, navigation, entity }: Write): Promise<Entity> {
    const own = navigation === undefined;
    if (set === 'A_BusinessPartner' && own)
      return method === 'POST' ? partnerOf(entity) : { ...entity, ...changedNow() };
    if (method !== 'POST') return entity;
    if (navigation === 'to_BusinessPartnerAddress') return addressOf(entity);
    if (navigation === 'to_EmailAddress') return emailOf(entity);
    if (set === 'A_PurchaseOrder' && own) return orderOf(entity, next('order', 4_500_000_000));
    if (set === 'A_PurchaseContract' && own) return contractOf(entity, next('contract', 4_600_000_000));
    if (navigation === 'to_PurchaseContractItem')
      return { PurchasingContractDeletionCode: '', PurgDocReleaseOrderQuantity: '0', ...entity };
    if (set === 'A_PurchasingInfoRecord') return recordOf(entity, navigation, key);
    if (set === 'A_PurgPrcgConditionRecord' && own) return { ...entity, ConditionRecord: next('condition', 10_000) };
    if (navigation === 'to_PurchaseOrderItem') return { PurchasingDocumentDeletionCode: '', ...entity };
    return entity;
  }

  /** The data of an organization shows the supplier and the material. */
  async function recordOf(entity: Entity, navigation: string | undefined, key: Write['key']): Promise<Entity> {
    if (navigation !== undefined) {
      const number = Object.values(key ?? {})[0];
      const path = `API_INFORECORD_PROCESS_SRV/A_PurchasingInfoRecord('${number}')?$format=json`;
      const { Supplier, Material } = await ask('GET', path);
      return { ...entity, Supplier, Material };
    }
    const { Supplier, Material, to_PurgInfoRecdOrgPlantData: organizations = [] } = entity;
    return {
      ...entity,
      PurchasingInfoRecord: next('record', 5_300_000_000),
      to_PurgInfoRecdOrgPlantData: (organizations as Entity[]).map((data) => ({ ...data, Supplier, Material })),
    };
  }

  function partnerOf(entity: Entity): Entity {
    const number = next('partner', 1_000_000);
    const supplier = entity['to_Supplier'] as Entity | undefined;
    const addresses = entity['to_BusinessPartnerAddress'] as Entity[] | undefined;
    return {
      ...entity,
      BusinessPartner: number,
      CreationDate: changedNow().LastChangeDate,
      ...(supplier ? { Supplier: number, to_Supplier: { ...supplier, Supplier: number } } : {}),
      ...(addresses ? { to_BusinessPartnerAddress: addresses.map(addressOf) } : {}),
    };
  }

  function addressOf(address: Entity): Entity {
    const emails = address['to_EmailAddress'] as Entity[] | undefined;
    return {
      ...address,
      AddressID: next('address', 20_000),
      ...(emails ? { to_EmailAddress: emails.map(emailOf) } : {}),
    };
  }

  function emailOf(email: Entity): Entity {
    return { Person: '', OrdinalNumber: next('email', 0).slice(-3), ...email };
  }

  return {
    refusalOf,
    perform,
    complete,
    hasEtag: (set: string) => !withoutEtag.has(set),
    nextQuotation: () => next('quotation', 8_000_000_000),
    contentOf: (logicalDocument: string) => contents.get(logicalDocument),
  };
}

function orderOf(entity: Entity, number: string): Entity {
  const items = (entity['to_PurchaseOrderItem'] as Entity[] | undefined) ?? [];
  return {
    PurchasingDocumentDeletionCode: '',
    PurchasingProcessingStatus: '02',
    ...entity,
    PurchaseOrder: number,
    to_PurchaseOrderItem: items.map((item, index) => ({
      PurchasingDocumentDeletionCode: '',
      PurchaseOrderItem: String((index + 1) * 10),
      DocumentCurrency: entity['DocumentCurrency'],
      ...item,
    })),
  };
}

function contractOf(entity: Entity, number: string): Entity {
  const items = (entity['to_PurchaseContractItem'] as Entity[] | undefined) ?? [];
  return {
    PurchasingDocumentDeletionCode: '',
    PurchasingProcessingStatus: '02',
    ...entity,
    PurchaseContract: number,
    to_PurchaseContractItem: items.map((item) => ({
      PurchasingContractDeletionCode: '',
      PurgDocReleaseOrderQuantity: '0',
      DocumentCurrency: entity['DocumentCurrency'],
      ...item,
    })),
  };
}

/** The fields that show when a partner was changed. */
export function changedNow(): { LastChangeDate: string; LastChangeTime: string } {
  const now = new Date();
  const time = now.toISOString();
  const [, hours, minutes, seconds] = /T(\d\d):(\d\d):(\d\d)/.exec(time) ?? [];
  const day = Date.parse(`${time.slice(0, 10)}T00:00:00Z`);
  return { LastChangeDate: `/Date(${day})/`, LastChangeTime: `PT${hours}H${minutes}M${seconds}S` };
}

function hasWrongTaxNumber(entity: Entity): boolean {
  return [entity, ...((entity['to_BusinessPartnerTax'] as Entity[] | undefined) ?? [])].some(
    ({ BPTaxNumber }) => BPTaxNumber === 'WRONG',
  );
}

function missingIn(entity: Entity, place: string): Refusal | undefined {
  for (const name of mandatory[place] ?? [])
    if (entity[name] === undefined || entity[name] === '')
      return { status: 400, code: '06/096', message: `Enter ${name}` };
  for (const [name, children] of Object.entries(entity)) {
    if (!Array.isArray(children)) continue;
    for (const child of children as Entity[]) {
      const missing = missingIn(child, name);
      if (missing) return missing;
    }
  }
  return undefined;
}

/** OData V2 has decimals as text and dates as /Date(…)/. */
function formatFault(entity: Entity): string | undefined {
  for (const [name, value] of Object.entries(entity)) {
    if (typeof value === 'number' && !Number.isInteger(value)) return `Invalid value for property ${name}`;
    const isDate = /Date(Time)?$/.test(name) && typeof value === 'string';
    if (isDate && !/^\/Date\(-?\d+([+-]\d+)?\)\/$/.test(value)) return `Property ${name} has invalid value '${value}'`;
    if (typeof value === 'object' && value !== null) {
      const inside = formatFault(value as Entity);
      if (inside !== undefined) return inside;
    }
  }
  return undefined;
}
