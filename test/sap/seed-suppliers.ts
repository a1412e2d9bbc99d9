/** Suppliers that the stub of SAP S/4HANA has from the beginning. */
import type { SapSystem } from './sap-system.ts';

export const suppliers = [
  { number: '17300001', external: 'V-1', name: 'Stahl & Söhne', isBlocked: false },
  { number: '17300002', external: 'V-2', name: 'Zweite GmbH', isBlocked: false },
  { number: '17300003', external: 'V-3', name: 'Gesperrt AG', isBlocked: true },
] as const;

export async function createSuppliers(system: SapSystem): Promise<void> {
  for (const { number, external, name, isBlocked } of suppliers)
    await system.ask('POST', 'API_BUSINESS_PARTNER/A_BusinessPartner', {
      BusinessPartner: number,
      Supplier: number,
      BusinessPartnerCategory: '2',
      OrganizationBPName1: name,
      BusinessPartnerIDByExtSystem: external,
      to_Supplier: { Supplier: number, PurchasingIsBlocked: isBlocked },
    });
}
