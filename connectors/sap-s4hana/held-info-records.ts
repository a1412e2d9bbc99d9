/** The info records and their prices, as SAP holds them. */
import { z } from 'sourcing-bridge/connector';
import { dayOfDate, decimalOrZero, expanded, metadataForm, textOrEmpty } from './odata.ts';
import { isSameCode, isSameNumber } from './sap-values.ts';

export const heldOrganization = z.object({
  PurchasingInfoRecord: z.string(),
  PurchasingInfoRecordCategory: z.string(),
  PurchasingOrganization: z.string(),
  Plant: textOrEmpty,
  Supplier: textOrEmpty,
  Material: textOrEmpty,
  SupplierQuotation: textOrEmpty,
  SupplierQuotationDate: z.string().nullish(),
  NetPriceAmount: decimalOrZero,
  MaterialPriceUnitQty: decimalOrZero,
  IsMarkedForDeletion: z.boolean().nullish(),
  __metadata: metadataForm,
});
export const heldRecord = z.object({
  PurchasingInfoRecord: z.string(),
  Supplier: textOrEmpty,
  Material: textOrEmpty,
  to_PurgInfoRecdOrgPlantData: expanded(heldOrganization),
});
const placeForm = z.object({
  Supplier: textOrEmpty,
  Material: textOrEmpty,
  PurchasingOrganization: textOrEmpty,
  Plant: textOrEmpty,
});
const heldScale = z.object({
  ConditionSequentialNumber: z.string(),
  ConditionScaleLine: z.string(),
});
export const heldCondition = z.object({
  ConditionRecord: z.string(),
  ConditionValidityStartDate: z.string().nullish(),
  ConditionValidityEndDate: z.string().nullish(),
  ConditionRateValue: decimalOrZero,
  ConditionRateValueUnit: textOrEmpty,
  ConditionQuantity: decimalOrZero,
  ConditionQuantityUnit: textOrEmpty,
  to_PurgPrcgCndnRecdValidity: expanded(placeForm),
  to_PurgPricingCndnRecdScale: expanded(heldScale),
  __metadata: metadataForm,
});
export const heldValidity = z.object({ ConditionRecord: z.string() });
export const infoRecordForms = {
  A_PurchasingInfoRecord: heldRecord,
  A_PurgInfoRecdOrgPlantData: heldOrganization,
};
export const conditionForms = {
  A_PurgPrcgConditionRecord: heldCondition,
  A_PurgPrcgCndnRecdValidity: placeForm,
  A_PurgPrcgCndnRecordScale: heldScale,
};
export type HeldOrganization = z.output<typeof heldOrganization>;
export type HeldRecord = z.output<typeof heldRecord>;
export type HeldCondition = z.output<typeof heldCondition>;

/** The first and the last day. */
export function validityOf(condition: HeldCondition): { from: string; to: string } {
  const { ConditionValidityStartDate, ConditionValidityEndDate } = condition;
  return { from: dayOfDate(ConditionValidityStartDate) ?? '', to: dayOfDate(ConditionValidityEndDate) ?? '' };
}

export interface Place {
  readonly supplier: string;
  readonly material: string;
  readonly organization: string;
  readonly plant: string;
}

export function placeOf(organization: HeldOrganization): Place {
  const { Supplier, Material, PurchasingOrganization, Plant } = organization;
  return { supplier: Supplier, material: Material, organization: PurchasingOrganization, plant: Plant };
}

/** Whether it is a price of this place. */
export function isOf({ to_PurgPrcgCndnRecdValidity: validities }: HeldCondition, place: Place): boolean {
  return validities.some(
    (validity) =>
      isSameCode(validity.Supplier, place.supplier) &&
      isSameCode(validity.Material, place.material) &&
      validity.PurchasingOrganization === place.organization &&
      isSameCode(validity.Plant, place.plant),
  );
}

/** Whether SAP has made it of the info record's own price: from some day to 9999-12-31, with that price. */
export function isAutomatic(condition: HeldCondition, organization: HeldOrganization | undefined): boolean {
  return (
    organization !== undefined &&
    validityOf(condition).to === '9999-12-31' &&
    isSameNumber(condition.ConditionRateValue, organization.NetPriceAmount) &&
    isSameNumber(condition.ConditionQuantity, organization.MaterialPriceUnitQty)
  );
}
