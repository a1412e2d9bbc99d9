/** The rules of SAP's purchasing that the stub keeps: what it refuses, what it numbers, what it marks as deleted. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Call } from './batch.ts';
import type { Behaviour } from './behaviour.ts';

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
  readonly isInBatch: boolean;
}

/** Done by the rule itself, or by other calls; anything else goes to SAP's OData server as it is. */
type Performed =
  | { readonly status: number; readonly entity?: Entity }
  | { readonly calls: Call[] }
  | Refusal
  | undefined;

type Ask = (method: string, path: string, body?: object) => Promise<Entity>;

const orders = 'API_PURCHASEORDER_PROCESS_SRV';
const contracts = 'API_PURCHASECONTRACT_PROCESS_SRV';
const conditions = 'API_PURGPRCGCONDITIONRECORD_SRV';
const requisitions = 'API_PURCHASEREQ_PROCESS_SRV';
const root = '/sap/opu/odata/sap/';
/** KBA 3555741: what the service takes, by the internal symbol. */
const itemCategories = new Set(['0', '2', '3', '5', 'A']);
/** TCURX, as SAP delivers it (note 137626): currencies whose amounts have other decimals than two. */
const tcurx: Readonly<Record<string, number>> = { HUF: 0, IDR: 0, COP: 0, TWD: 0, JPY: 0, KRW: 0, KWD: 3, BHD: 3 };

const mandatory: Readonly<Record<string, readonly string[]>> = {
  A_PurchaseOrder: ['CompanyCode', 'PurchaseOrderType', 'Supplier', 'PurchasingOrganization', 'PurchasingGroup'],
  to_PurchaseOrderItem: ['OrderQuantity'],
  A_PurchaseContract: ['PurchaseContractType', 'Supplier', 'PurchasingOrganization', 'ValidityEndDate'],
  A_BusinessPartner: ['BusinessPartnerCategory'],
  to_SupplierPurchasingOrg: ['PurchasingOrganization', 'PurchaseOrderCurrency'],
  to_SupplierCompany: ['CompanyCode', 'ReconciliationAccount'],
  A_PurchasingInfoRecord: ['Supplier', 'Material'],
  to_PurgInfoRecdOrgPlantData: ['PurchasingOrganization', 'Currency', 'NetPriceAmount'],
  A_PurgPrcgConditionRecord: ['ConditionTable', 'ConditionType', 'ConditionRateValue', 'ConditionRateValueUnit'],
};
const readOnly: Readonly<Record<string, readonly string[]>> = {
  A_PurchaseOrder: ['PurchasingDocumentDeletionCode', 'CreationDate', 'LastChangeDateTime', 'CreatedByUser'],
  A_PurchaseOrderItem: ['PurchasingDocumentDeletionCode', 'PurchaseOrder'],
  A_PurchaseContract: ['PurchasingDocumentDeletionCode', 'PurchasingProcessingStatus'],
  A_BusinessPartner: ['LastChangeDate', 'LastChangeTime', 'BusinessPartnerUUID'],
};
/** The header of each entity, whose deletion marks the document. */
const withoutEtag = new Set(['A_PurchaseOrderNote', 'A_PurchaseOrderItemNote', 'AttachmentContentSet']);

export function businessRules(ask: Ask, behaviour: Behaviour) {
  /** What SAP finds for a material when an item is made. */
  const prices = new Map<string, string>();
  const numbers = new Map<string, number>();
  /** The bytes of attachments, by LogicalDocument. */
  const contents = new Map<string, Buffer>();
  const next = (name: string, from: number) => {
    const number = (numbers.get(name) ?? from) + 1;
    numbers.set(name, number);
    return String(number);
  };

  async function refusalOf({
    method,
    service,
    set,
    key,
    navigation,
    entity,
    isInBatch,
  }: Write): Promise<Refusal | undefined> {
    const format = formatFault(entity);
    if (format !== undefined) return { status: 400, code: '/IWBEP/CM_MGW_RT/021', message: format };
    for (const name of readOnly[set] ?? [])
      if (navigation === undefined && name in entity)
        return { status: 400, code: '/IWBEP/CM_MGW_RT/022', message: `Property ${name} is read-only` };
    if (hasWrongTaxNumber(entity))
      return { status: 400, code: 'FSBP_TAX/001', message: 'Tax number WRONG is not valid for country DE' };
    if (service === requisitions && key) return refusalOfRequisition(key);
    if (service === contracts && key) {
      const refusal = await refusalOfContract(key, isInBatch);
      if (refusal) return refusal;
    }
    const refused = refusalOfItems(entity, navigation ?? set);
    if (refused) return refused;
    if (method !== 'POST') return undefined;
    const missing = missingIn(entity, navigation ?? set);
    if (missing) return missing;
    if (key) return undefined;
    if (set === 'A_PurchaseOrder' || set === 'A_PurchaseContract') return refusalOfSupplier(entity);
    if (set === 'A_PurchasingInfoRecord') return refusalOfRecord(entity);
    return undefined;
  }

  /** KBA 3338491: contracts are changed in a batch only; in approval they are locked, and a rejected one stays as it is. */
  async function refusalOfContract(
    key: Readonly<Record<string, string>>,
    isInBatch: boolean,
  ): Promise<Refusal | undefined> {
    if (!isInBatch) return { status: 400, message: 'Only batch requests are supported for changes of contracts' };
    const number = Object.values(key)[0];
    const held = await ask('GET', `${contracts}/A_PurchaseContract('${number}')?$format=json`);
    const status = held['PurchasingProcessingStatus'];
    if (status === '03') return { status: 400, message: `Contract ${number} is locked: it is in approval` };
    if (status === '08') return { status: 400, message: `Contract ${number} was rejected` };
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
    if (set === 'A_PurgInfoRecdOrgPlantData' && method === 'PATCH' && 'NetPriceAmount' in write.entity) {
      const { NetPriceAmount: _amount, ...rest } = write.entity;
      return { calls: [{ method, path: write.url, headers: {}, body: JSON.stringify(rest) }] };
    }
    return undefined;
  }

  /** An info record with a price makes a condition by itself. */
  async function afterwards({ method, service, set, key, navigation, entity }: Write): Promise<void> {
    if (!behaviour.makesConditions || method !== 'POST' || service !== 'API_INFORECORD_PROCESS_SRV') return;
    const organizations =
      navigation === undefined ? ((entity['to_PurgInfoRecdOrgPlantData'] ?? []) as Entity[]) : [entity];
    const { Supplier, Material } =
      set === 'A_PurchasingInfoRecord' && navigation === undefined
        ? entity
        : await ask('GET', `${service}/A_PurchasingInfoRecord('${Object.values(key ?? {})[0]}')?$format=json`);
    for (const data of organizations) {
      const day = new Date().toISOString().slice(0, 10);
      const validity = {
        ConditionType: 'PPR0',
        ConditionValidityStartDate: `/Date(${Date.parse(`${day}T00:00:00Z`)})/`,
        // 9999-12-31.
        ConditionValidityEndDate: '/Date(253402214400000)/',
      };
      await ask('POST', `${conditions}/A_PurgPrcgConditionRecord`, {
        ConditionRecord: next('condition', 10_000),
        ConditionTable: '017',
        ...validity,
        ConditionRateValue: data['NetPriceAmount'],
        ConditionRateValueUnit: data['Currency'],
        ConditionQuantity: data['MaterialPriceUnitQty'],
        ConditionQuantityUnit: data['PurchaseOrderPriceUnit'],
        to_PurgPrcgCndnRecdValidity: [
          {
            ...validity,
            Supplier,
            Material,
            PurchasingOrganization: data['PurchasingOrganization'],
            PurchasingInfoRecordCategory: '0',
            Plant: data['Plant'] ?? '',
          },
        ],
      });
    }
  }

  /** Keeps the bytes beside the entity. */
  async function attach({ headers, bytes: sent }: Write): Promise<Performed> {
    const bytes = behaviour.cutsAttachments ? sent.subarray(0, -1) : sent;
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
    const [order = ''] = Object.values(key);
    const mark = { PurchasingDocumentDeletionCode: 'L' };
    if (set === 'A_PurchaseOrderItem') return { calls: [patchOf(`${orders}/${itemPath(key)}`, mark)] };
    if (set !== 'A_PurchaseOrder') return undefined;
    const held = await ask('GET', `${orders}/A_PurchaseOrder('${order}')?$expand=to_PurchaseOrderItem&$format=json`);
    const items = held['to_PurchaseOrderItem'].results as Entity[];
    return {
      calls: [
        ...items.map((entry) => patchOf(`${orders}/${itemPath({ PurchaseOrder: order, ...entry })}`, mark)),
        ...(behaviour.marksHeader ? [patchOf(`${orders}/A_PurchaseOrder('${order}')`, mark)] : []),
      ],
    };
  }

  /** Numbers, and what SAP fills in. */
  async function complete({ method, set, key, navigation, entity }: Write): Promise<Entity> {
    const own = navigation === undefined;
    if (set === 'A_BusinessPartner' && own)
      return method === 'POST' ? partnerOf(entity) : { ...(await namesOfKind(key, entity)), ...changedNow() };
    if (method !== 'POST') return entity;
    if (navigation === 'to_BusinessPartnerAddress') return addressOf(entity);
    if (navigation === 'to_EmailAddress') return emailOf(entity);
    const status = behaviour.approvesAtOnce ? '05' : '02';
    if (set === 'A_PurchaseOrder' && own) {
      const made = orderOf(entity, next('order', 4_500_000_000), status);
      return { ...made, to_PurchaseOrderItem: (made['to_PurchaseOrderItem'] as Entity[]).map(priced) };
    }
    if (set === 'A_PurchaseContract' && own) return contractOf(entity, next('contract', 4_600_000_000), status);
    if (navigation === 'to_PurchaseContractItem')
      return { PurchasingContractDeletionCode: '', PurgDocReleaseOrderQuantity: '0', ...entity };
    if (set === 'A_PurchasingInfoRecord') return recordOf(entity, navigation, key);
    if (set === 'A_PurgPrcgConditionRecord' && own) return { ...entity, ConditionRecord: next('condition', 10_000) };
    if (navigation === 'to_PurchaseOrderItem') return priced({ PurchasingDocumentDeletionCode: '', ...entity });
    return entity;
  }

  /** SAP determines the price when an item is made (KBA 3753433). */
  function priced(item: Entity): Entity {
    const own = prices.get(item['Material'] as string);
    return own === undefined ? item : { ...item, NetPriceAmount: own, NetPriceQuantity: '1' };
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

  /** Names of an organization are read-only at a person: SAP answers 204 and keeps what it has. */
  async function namesOfKind(key: Write['key'], entity: Entity): Promise<Entity> {
    const path = `API_BUSINESS_PARTNER/A_BusinessPartner('${Object.values(key ?? {})[0]}')?$format=json`;
    if ((await ask('GET', path))['BusinessPartnerCategory'] !== '1') return entity;
    return Object.fromEntries(Object.entries(entity).filter(([name]) => !name.startsWith('OrganizationBPName')));
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
    afterwards,
    priceMaterial: (material: string, amount: string) => void prices.set(material, amount),
    hasEtag: (set: string) => !withoutEtag.has(set),
    nextQuotation: () => next('quotation', 8_000_000_000),
    contentOf: (logicalDocument: string) => contents.get(logicalDocument),
  };
}

function itemPath({ PurchaseOrder, PurchaseOrderItem }: Entity): string {
  return `A_PurchaseOrderItem(PurchaseOrder='${PurchaseOrder}',PurchaseOrderItem='${PurchaseOrderItem}')`;
}

function patchOf(path: string, change: Entity): Call {
  return { method: 'PATCH', path: `${root}${path}`, headers: {}, body: JSON.stringify(change) };
}

/** What SAP refuses of items: a category by its external symbol, a unit that the material does not have, decimals. */
function refusalOfItems(entity: Entity, place: string): Refusal | undefined {
  const isOrder = place === 'A_PurchaseOrder' || place === 'to_PurchaseOrderItem';
  const items = (place === 'A_PurchaseOrder' ? entity['to_PurchaseOrderItem'] : isOrder ? [entity] : []) as
    | Entity[]
    | undefined;
  for (const item of items ?? []) {
    const {
      PurchaseOrderItemCategory: category,
      Material = '',
      PurchaseOrderQuantityUnit: unit,
      NetPriceAmount,
    } = item;
    if (category !== undefined && !itemCategories.has(category))
      return { status: 400, message: `Item category ${category} is not supported`, code: 'MEPO/104' };
    // Materials of the tests whose number begins with KG- are kept in kilograms.
    if (String(Material).startsWith('KG-') && unit !== 'KG')
      return { status: 400, message: `Unit ${unit} is not a unit of material ${Material}`, code: 'M3/070' };
    const places = tcurx[entity['DocumentCurrency'] as string] ?? 2;
    if (typeof NetPriceAmount === 'string' && (NetPriceAmount.split('.')[1] ?? '').length > places)
      return { status: 400, message: `Amount ${NetPriceAmount} has more than ${places} decimals` };
  }
  return undefined;
}

function orderOf(entity: Entity, number: string, status: string): Entity {
  const items = (entity['to_PurchaseOrderItem'] as Entity[] | undefined) ?? [];
  return {
    PurchasingDocumentDeletionCode: '',
    PurchasingProcessingStatus: status,
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

function contractOf(entity: Entity, number: string, status: string): Entity {
  const items = (entity['to_PurchaseContractItem'] as Entity[] | undefined) ?? [];
  return {
    PurchasingDocumentDeletionCode: '',
    PurchasingProcessingStatus: status,
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

/** A person has other names than an organization. */
const nameFields: Readonly<Record<string, readonly string[]>> = { 1: ['LastName'], 2: ['OrganizationBPName1'] };

function missingIn(entity: Entity, place: string): Refusal | undefined {
  const names = place === 'A_BusinessPartner' ? nameFields[entity['BusinessPartnerCategory'] as string] : undefined;
  for (const name of [...(mandatory[place] ?? []), ...(names ?? [])])
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
