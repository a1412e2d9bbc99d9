/** Units of measure: what a bid sheet calls them, and what SAP does. */
import { DataError } from 'sourcing-bridge/connector';
import type { Settings } from './settings.ts';

/** UN/ECE recommendation 20, which SAP calls the ISO code, to the English commercial unit of SAP's delivered customizing. */
const isoUnits: ReadonlyMap<string, string> = new Map(
  Object.entries({
    C62: 'PC',
    PCE: 'PC',
    EA: 'EA',
    KGM: 'KG',
    GRM: 'G',
    TNE: 'TO',
    MTR: 'M',
    MMT: 'MM',
    CMT: 'CM',
    KMT: 'KM',
    MTK: 'M2',
    MTQ: 'M3',
    LTR: 'L',
    MLT: 'ML',
    HUR: 'H',
    MIN: 'MIN',
    DAY: 'DAY',
    MON: 'MON',
    ANN: 'YR',
    SET: 'SET',
    PR: 'PR',
    CT: 'CAR',
    BX: 'BOX',
    PK: 'PAK',
    PF: 'PAL',
  }),
);
/** PurchaseOrderQuantityUnit, Edm.String(3). */
const lengthMax = 3;

/** SAP's unit. Throws DataError for one that is not known and cannot be SAP's own. */
export function sapUnit(unit: string, { units }: Settings, what: string): string {
  const known = (Object.hasOwn(units, unit) ? units[unit] : undefined) ?? isoUnits.get(unit);
  if (known !== undefined) return known;
  if (unit.length <= lengthMax && /^[\dA-Z%"]+$/.test(unit)) return unit;
  throw new DataError(
    `${what} is "${unit}", which is neither an ISO code nor a unit of SAP (at most 3 capital letters, PurchaseOrderQuantityUnit): add it to settings.units`,
  );
}
