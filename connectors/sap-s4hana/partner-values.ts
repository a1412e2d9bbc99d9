/** What a supplier is as a business partner of SAP: pure, from the document and the settings. */
import { DataError, type SupplierDocument } from 'sourcing-bridge/connector';
import { cut, fitted, type LimitedField } from './limits.ts';
import { checkFields, taxPrefix } from './mapping-fields.ts';
import { externalNumber } from './markers.ts';
import type { Settings } from './settings.ts';

export interface PartnerValues {
  readonly external: string;
  readonly name: string;
  /** Whether a new one is a person; one that SAP has stays what it is. */
  readonly isPerson: boolean;
  /** Fields of A_BusinessPartner beside its name. */
  readonly head: Readonly<Record<string, string>>;
  /** Undefined without a country, without which SAP takes no address. */
  readonly address: Readonly<Record<string, string>> | undefined;
  readonly emails: readonly { readonly EmailAddress: string; readonly AddressCommunicationRemarkText: string }[];
  readonly taxes: readonly { readonly BPTaxType: string; readonly BPTaxNumber: string }[];
  /** Undefined: the state in SAP stays. */
  readonly isBlocked: boolean | undefined;
  readonly company: Readonly<Record<string, string>>;
  readonly purchasing: Readonly<Record<string, string>>;
}

const nameLength = 40;
const organizationNames = [
  'OrganizationBPName1',
  'OrganizationBPName2',
  'OrganizationBPName3',
  'OrganizationBPName4',
] as const;

/** Throws DataError for a value that SAP cannot keep, with the field's name. */
export function partnerOf(supplier: SupplierDocument, settings: Settings): PartnerValues {
  const fields: Readonly<Record<string, string>> = supplier.fields ?? {};
  checkFields(fields, 'suppliers');
  const given = (pairs: readonly (readonly [LimitedField, string, (string | undefined)?])[]) =>
    Object.fromEntries(
      pairs.flatMap(([name, field, setting]) => {
        const value = fields[field] ?? setting;
        return value === undefined || value === '' ? [] : [[name, fitted(name, value, field)]];
      }),
    );
  const country = fields['country'] ?? settings.supplier_country;
  return {
    external: externalNumber(supplier.key),
    name: fields['name'] ?? supplier.name,
    isPerson: isPerson(fields['person']),
    head: given([['SearchTerm1', 'search_term']]),
    address:
      country === undefined
        ? undefined
        : given([
            ['StreetName', 'street'],
            ['HouseNumber', 'house_number'],
            ['PostalCode', 'postal_code'],
            ['CityName', 'city'],
            ['Region', 'region'],
            ['Country', 'country', country],
          ]),
    emails: supplier.contacts.map(({ name, email }) => ({
      EmailAddress: fitted('EmailAddress', email, `the e-mail address of ${name}`),
      AddressCommunicationRemarkText: cut('AddressCommunicationRemarkText', name),
    })),
    taxes: Object.entries(fields).flatMap(([name, value]) => {
      if (!name.startsWith(taxPrefix) || value === '') return [];
      const type = fitted('BPTaxType', name.slice(taxPrefix.length), `the type in ${name}`);
      return [{ BPTaxType: type, BPTaxNumber: fitted('BPTaxNumber', value, name) }];
    }),
    isBlocked: supplier.archived,
    company: {
      CompanyCode: settings.company_code,
      ...given([
        ['ReconciliationAccount', 'reconciliation_account', settings.reconciliation_account],
        ['PaymentTerms', 'payment_terms'],
      ]),
    },
    purchasing: {
      PurchasingOrganization: settings.purchasing_organization,
      ...given([
        ['PurchaseOrderCurrency', 'currency', settings.supplier_currency],
        ['PaymentTerms', 'payment_terms'],
        ['IncotermsClassification', 'incoterms'],
        ['IncotermsLocation1', 'incoterms_location'],
      ]),
    },
  };
}

function isPerson(field: string | undefined): boolean {
  if (field === undefined || field === '' || field === 'no') return false;
  if (field === 'yes') return true;
  throw new DataError(
    `person is "${field.slice(0, 20)}": it is yes for a sole trader, or no (BusinessPartnerCategory)`,
  );
}

/** The company's and the organization's data of a new supplier. Throws DataError where SAP would refuse it. */
export function expectSupplierData({ company, purchasing }: PartnerValues): void {
  const missing = [
    ...(company['ReconciliationAccount'] === undefined ? ['reconciliation_account (ReconciliationAccount)'] : []),
    ...(purchasing['PurchaseOrderCurrency'] === undefined ? ['supplier_currency (PurchaseOrderCurrency)'] : []),
  ];
  if (missing.length > 0)
    throw new DataError(
      `SAP makes no supplier without ${missing.join(' and ')}: name it in the settings, or in the mapping`,
    );
}

/** The fields of the name: first and last name of a person, which are divided at the last blank. */
export function nameFields(name: string, isPersonsName: boolean): Record<string, string> {
  if (!isPersonsName) return nameParts(name);
  const [, first = '', last = name] = /^(.*)\s(\S+)$/su.exec(name.trim()) ?? [];
  const fits = (part: string) => part.length <= nameLength;
  if (fits(first) && fits(last)) return { FirstName: first, LastName: last };
  throw new DataError(
    `the name "${name.slice(0, 60)}" is longer than SAP's two fields of 40 characters (FirstName, LastName)`,
  );
}

/**
 * The name in four fields of 40 characters, divided at blanks where there are some. Throws DataError for one that is
 * longer.
 */
export function nameParts(name: string): Record<(typeof organizationNames)[number], string> {
  const parts: string[] = [];
  let rest = name;
  while (rest !== '') {
    if (parts.length === organizationNames.length)
      throw new DataError(
        `the name "${name.slice(0, 60)}…" is longer than SAP's four fields of 40 characters (OrganizationBPName1 to 4)`,
      );
    const blank = rest.length <= nameLength ? -1 : rest.lastIndexOf(' ', nameLength);
    const whole = rest.length <= nameLength;
    const end = whole ? rest.length : blank > 0 ? blank : endWithin(rest);
    parts.push(rest.slice(0, end));
    rest = rest.slice(!whole && blank > 0 ? end + 1 : end);
  }
  const [first = '', second = '', third = '', fourth = ''] = parts;
  return {
    OrganizationBPName1: first,
    OrganizationBPName2: second,
    OrganizationBPName3: third,
    OrganizationBPName4: fourth,
  };
}

/** Not between the two halves of a character. */
function endWithin(text: string): number {
  return /[\uD800-\uDBFF]/u.test(text.charAt(nameLength - 1)) ? nameLength - 1 : nameLength;
}

/** SearchTerm2 of a supplier that the connector has blocked: it lifts no other block, which may be compliance's. */
export const ownBlock = 'SB-BLOCKED';

/** The body of a POST that makes the whole business partner. */
export function partnerBody(values: PartnerValues, settings: Settings): object {
  const { external, name, isPerson: isOne, head, address, emails, taxes, isBlocked, company, purchasing } = values;
  const { supplier_roles, supplier_grouping, language } = settings;
  return {
    BusinessPartnerCategory: isOne ? '1' : '2',
    ...(supplier_grouping === undefined ? {} : { BusinessPartnerGrouping: supplier_grouping }),
    BusinessPartnerIDByExtSystem: external,
    CorrespondenceLanguage: language,
    ...filled({ ...nameFields(name, isOne), ...head }),
    ...(isBlocked === true ? { SearchTerm2: ownBlock } : {}),
    to_BusinessPartnerRole: supplier_roles.map((role) => ({ BusinessPartnerRole: role })),
    ...(address ? { to_BusinessPartnerAddress: [addressBody(address, emails, settings)] } : {}),
    ...(taxes.length > 0 ? { to_BusinessPartnerTax: taxes } : {}),
    to_Supplier: {
      ...(isBlocked === undefined ? {} : { PurchasingIsBlocked: isBlocked }),
      to_SupplierCompany: [company],
      to_SupplierPurchasingOrg: [purchasing],
    },
  };
}

export function addressBody(
  address: Readonly<Record<string, string>>,
  emails: PartnerValues['emails'],
  { language }: Settings,
): object {
  return { ...address, Language: language, ...(emails.length > 0 ? { to_EmailAddress: emails } : {}) };
}

function filled(fields: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}
