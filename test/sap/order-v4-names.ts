/**
 * What the stub knows of API_PURCHASEORDER_2 (OData V4, CE_PURCHASEORDER_0001): names, types and lengths as they stand in
 * public copies of SAP's `$metadata`, of the fields that a purchasing integration uses. A field that is not here is refused.
 * A number is the length of a text. `computed`: SAP refuses or ignores it in a request.
 */
export type FieldType = number | 'text' | 'decimal' | 'date' | 'boolean';

interface EntityNames {
  /** The set of V2 over which the stub keeps it. */
  readonly v2: string;
  readonly fields: Readonly<Record<string, FieldType>>;
  /** Parts by navigation, with the set of their entities and their navigation in V2. */
  readonly parts: Readonly<Record<string, { readonly set: string; readonly v2: string }>>;
  readonly mandatory: readonly string[];
  readonly computed: readonly string[];
  /** What has to stand beside an amount or a quantity (Measures.Unit, Measures.ISOCurrency; KBA 3360429). */
  readonly units: Readonly<Record<string, string>>;
}

const itemKey = { PurchaseOrder: 10, PurchaseOrderItem: 5 } as const;

export const v4Sets: Readonly<Record<string, EntityNames>> = {
  PurchaseOrder: {
    v2: 'A_PurchaseOrder',
    fields: {
      PurchaseOrder: 10,
      PurchaseOrderType: 4,
      PurchaseOrderDate: 'date',
      Language: 2,
      PurchaseOrderDeletionCode: 1,
      PurchasingProcessingStatus: 2,
      CompanyCode: 4,
      PurchasingOrganization: 4,
      PurchasingGroup: 3,
      Supplier: 10,
      PaymentTerms: 4,
      IncotermsClassification: 3,
      IncotermsLocation1: 70,
      CorrespncExternalReference: 12,
      CorrespncInternalReference: 12,
      DocumentCurrency: 3,
    },
    parts: {
      _PurchaseOrderItem: { set: 'PurchaseOrderItem', v2: 'to_PurchaseOrderItem' },
      _PurchaseOrderNote: { set: 'PurchaseOrderNote', v2: 'to_PurchaseOrderNote' },
    },
    mandatory: ['PurchaseOrderType', 'Supplier'],
    computed: ['PurchaseOrder', 'PurchaseOrderDeletionCode', 'PurchasingProcessingStatus'],
    units: {},
  },
  PurchaseOrderItem: {
    v2: 'A_PurchaseOrderItem',
    fields: {
      ...itemKey,
      DocumentCurrency: 3,
      PurchasingDocumentDeletionCode: 1,
      MaterialGroup: 9,
      Material: 18,
      SupplierMaterialNumber: 35,
      PurchaseOrderItemText: 40,
      Plant: 4,
      StorageLocation: 4,
      PurchaseOrderQuantityUnit: 3,
      NetPriceQuantity: 'decimal',
      IsCompletelyDelivered: 'boolean',
      IsFinallyInvoiced: 'boolean',
      PurchaseContract: 10,
      PurchaseContractItem: 5,
      PurchaseRequisition: 10,
      PurchaseRequisitionItem: 5,
      RequirementTracking: 10,
      PurchaseOrderItemCategory: 1,
      OrderPriceUnit: 3,
      AccountAssignmentCategory: 1,
      OrderQuantity: 'decimal',
      NetPriceAmount: 'decimal',
      TaxCode: 2,
    },
    parts: {
      _PurchaseOrderScheduleLineTP: { set: 'PurchaseOrderScheduleLine', v2: 'to_ScheduleLine' },
      _PurOrdAccountAssignment: { set: 'PurchaseOrderAccountAssignment', v2: 'to_AccountAssignment' },
      _PurchaseOrderItemNote: { set: 'PurchaseOrderItemNote', v2: 'to_PurchaseOrderItemNote' },
    },
    mandatory: ['Plant'],
    computed: ['PurchasingDocumentDeletionCode'],
    units: {
      OrderQuantity: 'PurchaseOrderQuantityUnit',
      NetPriceAmount: 'DocumentCurrency',
      NetPriceQuantity: 'OrderPriceUnit',
    },
  },
  PurchaseOrderScheduleLine: {
    v2: 'A_PurchaseOrderScheduleLine',
    fields: {
      ...itemKey,
      ScheduleLine: 4,
      ScheduleLineDeliveryDate: 'date',
      ScheduleLineOrderQuantity: 'decimal',
      PurchaseOrderQuantityUnit: 3,
    },
    parts: {},
    mandatory: [],
    computed: [],
    units: { ScheduleLineOrderQuantity: 'PurchaseOrderQuantityUnit' },
  },
  PurchaseOrderAccountAssignment: {
    v2: 'A_PurOrdAccountAssignment',
    fields: {
      ...itemKey,
      AccountAssignmentNumber: 2,
      CostCenter: 10,
      GLAccount: 10,
      OrderID: 12,
      WBSElementExternalID: 24,
    },
    parts: {},
    mandatory: [],
    computed: [],
    units: {},
  },
  PurchaseOrderNote: {
    v2: 'A_PurchaseOrderNote',
    fields: { PurchaseOrder: 10, TextObjectType: 4, Language: 2, PlainLongText: 'text' },
    parts: {},
    mandatory: [],
    computed: [],
    units: {},
  },
  PurchaseOrderItemNote: {
    v2: 'A_PurchaseOrderItemNote',
    fields: { ...itemKey, TextObjectType: 4, Language: 2, PlainLongText: 'text' },
    parts: {},
    mandatory: [],
    computed: [],
    units: {},
  },
};

/** `$metadata`, as far as the stub knows it. In older releases notes are read and added, and never changed. */
export function describeV4(areNotesFixed: boolean): string {
  const types = Object.entries(v4Sets).map(([set, { fields }]) => {
    const properties = Object.entries(fields).map(([name, type]) => {
      const edm = { text: 'String', decimal: 'Decimal', date: 'Date', boolean: 'Boolean' };
      return typeof type === 'number'
        ? `<Property Name="${name}" Type="Edm.String" Nullable="false" MaxLength="${type}"/>`
        : `<Property Name="${name}" Type="Edm.${edm[type]}"/>`;
    });
    return `<EntityType Name="${set}Type">${properties.join('')}</EntityType>`;
  });
  const sets = Object.keys(v4Sets).map(
    (set) => `<EntitySet Name="${set}" EntityType="com.sap.gateway.srvd_a2x.api_purchaseorder_2.v0001.${set}Type"/>`,
  );
  const updatable = areNotesFixed
    ? '<Annotation Term="SAP__capabilities.UpdateRestrictions"><Record><PropertyValue Property="Updatable" Bool="false"/></Record></Annotation>'
    : '';
  return `<?xml version="1.0" encoding="utf-8"?><edmx:Edmx Version="4.0" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx"><edmx:DataServices><Schema Namespace="com.sap.gateway.srvd_a2x.api_purchaseorder_2.v0001" Alias="SAP__self" xmlns="http://docs.oasis-open.org/odata/ns/edm">${types.join('')}<EntityContainer Name="Container">${sets.join('')}</EntityContainer><Annotations Target="SAP__self.Container/PurchaseOrderNote"><Annotation Term="SAP__capabilities.InsertRestrictions"><Record><PropertyValue Property="Insertable" Bool="false"/></Record></Annotation>${updatable}</Annotations></Schema></edmx:DataServices></edmx:Edmx>`;
}
