/** A flow's settings for the stub of SAP S/4HANA. */
import { login } from '../../sap/sap-system.ts';

export function sapSettings(url: string, more: Readonly<Record<string, unknown>> = {}) {
  return {
    url,
    client: '100',
    user: login.user,
    password: login.password,
    company_code: '1010',
    purchasing_organization: '1010',
    purchasing_group: '001',
    plant: '1010',
    material_group: 'L001',
    supplier_currency: 'EUR',
    reconciliation_account: '21100000',
    ...more,
  };
}
