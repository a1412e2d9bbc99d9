/** The info records and their prices, as SAP holds them. */
import { z } from 'sourcing-bridge/connector';
import { dayOfDate, decimalOrZero, expanded, metadataForm, textOrEmpty } from './odata.ts';
import { plainCode } from './order-record.ts';

export const heldOrganization = z.object({
  PurchasingInfoRecord: z.string(),
  PurchasingInfoRecordCategory: z.string(),
  PurchasingOrganization: z.string(),
  Plant: textOrEmpty,
  Supplier: textOrEmpty,
  Material: textOrEmpty,
  SupplierQuotation: textOrEmpty,
  SupplierQuotationDate: z.string().nullish(),
  IsMarkedForDeletion: z.boolean().nullish(),
  __metadata: metadataForm,
});
export const heldRecord = z.object({
  PurchasingInfoRecord: z.string(),
  Supplier: textOrEmpty,
  Material: textOrEmpty,
  to_PurgInfoRecdOrgPlantData: expanded(heldOrganization),
});
const heldScale = z.object({
  ConditionSequentialNumber: z.string(),
  ConditionScaleLine: z.string(),
  ConditionScaleQuantity: decimalOrZero,
  ConditionRateValue: decimalOrZero,
});
export const heldCondition = z.object({
  ConditionRecord: z.string(),
  ConditionValidityStartDate: z.string().nullish(),
  ConditionValidityEndDate: z.string().nullish(),
  ConditionRateValue: decimalOrZero,
  ConditionRateValueUnit: textOrEmpty,
  ConditionQuantity: decimalOrZero,
  ConditionQuantityUnit: textOrEmpty,
  to_PurgPrcgCndnRecdValidity: expanded(
    z.object({ Supplier: textOrEmpty, Material: textOrEmpty, PurchasingOrganization: textOrEmpty, Plant: textOrEmpty }),
  ),
  to_PurgPricingCndnRecdScale: expanded(heldScale),
  __metadata: metadataForm,
});
export const heldValidity = z.object({ ConditionRecord: z.string() });
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

/** Whether it is a price of this place. */
export function isOf({ to_PurgPrcgCndnRecdValidity: validities }: HeldCondition, place: Place): boolean {
  return validities.some(
    (validity) =>
      validity.Supplier === place.supplier &&
      plainCode(validity.Material) === plainCode(place.material) &&
      validity.PurchasingOrganization === place.organization &&
      validity.Plant === place.plant,
  );
}
