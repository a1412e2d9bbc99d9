/**
 * The numbers of SAP's suppliers. A number that was found is remembered for a while, up to a limit; a supplier that is
 * not remembered is always asked for, so a new one is found at once.
 */
import { type Clock, ConflictError, DataError, LockedError, z } from 'sourcing-bridge/connector';
import { externalNumber } from './markers.ts';
import { anyOf, type OData, textOrEmpty } from './odata.ts';
import type { Settings } from './settings.ts';

export const partnerService = 'API_BUSINESS_PARTNER';

/** A supplier as a document names it. */
interface Named {
  readonly id: string;
  readonly external_id?: string | undefined;
  readonly name: string;
}

export interface Partners {
  /**
   * Asks SAP for those that are not remembered: one request for up to 20. Then `numberOf` answers for all of them.
   */
  find(suppliers: readonly Named[], signal: AbortSignal): Promise<void>;
  /** SAP's number. Throws LockedError for a supplier that SAP does not have yet, ConflictError for one that it has twice. */
  numberOf(supplier: Named): string;
  /** After SAP has refused the number: it is asked for again. */
  forget(supplier: Named): void;
}

const rememberedMax = 10_000;
const perRequest = 20;

const partner = z.object({
  BusinessPartner: z.string().min(1),
  Supplier: textOrEmpty,
  BusinessPartnerIDByExtSystem: textOrEmpty,
});

interface Remembered {
  readonly numbers: readonly string[];
  readonly untilMs: number;
}

export function createPartners(odata: OData, settings: Settings, clock: Clock): Partners {
  /** In the order in which they were asked for last, so that none of a batch is forgotten before it is used. */
  const remembered = new Map<string, Remembered>();

  function remember(key: string, value: Remembered): void {
    remembered.delete(key);
    remembered.set(key, value);
    const [oldest] = remembered.keys();
    if (remembered.size > rememberedMax && oldest !== undefined) remembered.delete(oldest);
  }

  return {
    async find(suppliers, signal) {
      if (settings.supplier_number === 'sap') return;
      const isKnown = (key: string) => {
        const known = remembered.get(key);
        if (known?.numbers.length !== 1 || known.untilMs <= clock.nowMs()) return false;
        remember(key, known);
        return true;
      };
      const asked = [...new Set(suppliers.map(keyOf))].filter((key) => !isKnown(key));
      for (let from = 0; from < asked.length; from += perRequest) {
        const keys = asked.slice(from, from + perRequest);
        const external = anyOf('BusinessPartnerIDByExtSystem', keys.map(externalNumber));
        const own = settings.supplier_number === 'auto' ? keys.filter(isSapNumber) : [];
        const filter = own.length === 0 ? external : `${external} or ${anyOf('Supplier', own)}`;
        const rows = await odata.list(
          partnerService,
          'A_BusinessPartner',
          partner,
          { filter, select: ['BusinessPartner', 'Supplier', 'BusinessPartnerIDByExtSystem'] },
          signal,
        );
        for (const key of keys) {
          const byExternal = rows.filter((row) => row.BusinessPartnerIDByExtSystem === externalNumber(key));
          const found =
            byExternal.length > 0 ? byExternal : rows.filter((row) => own.includes(key) && row.Supplier === key);
          const numbers = found.map(({ Supplier }) => Supplier).filter((number) => number !== '');
          if (numbers.length > 0) remember(key, { numbers, untilMs: clock.nowMs() + settings.cache_seconds * 1_000 });
          else remembered.delete(key);
        }
      }
    },
    numberOf(supplier) {
      const key = keyOf(supplier);
      if (settings.supplier_number === 'sap') {
        if (isSapNumber(key)) return key;
        throw new DataError(
          `the supplier "${supplier.name}" has the external id "${key}", which is no number of SAP (settings.supplier_number is sap)`,
        );
      }
      const { numbers = [] } = remembered.get(key) ?? {};
      const [number, second] = numbers;
      if (number === undefined)
        throw new LockedError(
          `SAP has no supplier "${supplier.name}" (${key}): it is neither the number in an external system (BusinessPartnerIDByExtSystem ${externalNumber(key)}) of a business partner that is a supplier${settings.supplier_number === 'auto' ? ', nor a number of SAP' : ''}`,
        );
      if (second !== undefined)
        throw new ConflictError(
          `SAP has several suppliers for "${supplier.name}" (${key}): ${numbers.join(', ')}. Only one of them may have this number in an external system.`,
        );
      return number;
    },
    forget: (supplier) => void remembered.delete(keyOf(supplier)),
  };
}

function keyOf({ id, external_id }: Named): string {
  return external_id ?? id;
}

/** A_Supplier-Supplier has 10 characters. */
export function isSapNumber(key: string): boolean {
  return /^[\dA-Z]{1,10}$/u.test(key);
}
