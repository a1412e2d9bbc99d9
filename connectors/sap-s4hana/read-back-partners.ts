/**
 * What SAP holds of a supplier as a business partner, field by field, beside what a write makes of it. What is only in SAP
 * (further addresses, e-mail addresses, tax numbers, roles) is not compared: users add it.
 */
import { fieldsOf, type ReadBack, type TakenDocument, TransientError } from 'sourcing-bridge/connector';
import type { HeldPartner } from './held-partners.ts';
import { referenceOf } from './kind.ts';
import type { PartnerValues } from './partner-values.ts';

/** `found` are the partners with the supplier's number, and the one of the reference. Throws where SAP did not show all. */
export function readBusinessPartner(
  { document, reference }: TakenDocument<'supplier'>,
  { values, roles }: { readonly values: PartnerValues; readonly roles: readonly string[] },
  found: readonly HeldPartner[],
): ReadBack {
  const { key } = document;
  const referenceTo = ({ BusinessPartner }: HeldPartner) => referenceOf('BusinessPartner', BusinessPartner);
  const own = found.find((held) => referenceTo(held) === reference) ?? (found.length === 1 ? found[0] : undefined);
  if (!own)
    return found.length === 0
      ? { key, status: 'missing' }
      : { key, status: 'unclear', reason: `SAP holds ${found.length} business partners for it` };
  if (own.Supplier !== '' && !own.to_Supplier)
    throw new TransientError(`SAP did not show the supplier data of ${referenceTo(own)}`);
  const hasEmails = values.emails.length > 0 && values.address === undefined;
  return {
    key,
    status: 'held',
    reference: referenceTo(own),
    fields: fieldsOf(wantedValues(values, roles, own.Supplier === key), heldValues(values, roles, own), {
      names: ['EmailAddress', 'BPTaxType', 'BusinessPartnerRole'],
    }),
    notCompared: [
      'the other values of company code and purchasing organization',
      ...(hasEmails ? ['the e-mail addresses: SAP keeps them with an address, and none was written'] : []),
    ],
  };
}

/** A partner that was found by SAP's own number keeps what it has as the number in an external system. */
function wantedValues(values: PartnerValues, roles: readonly string[], isKnownByOwnNumber: boolean) {
  const { external, head, address, emails, taxes, isBlocked, company, purchasing } = values;
  return {
    ...(isKnownByOwnNumber ? {} : { BusinessPartnerIDByExtSystem: external }),
    ...head,
    ...(address ? { address, emails } : {}),
    taxes,
    roles: roles.map((role) => ({ BusinessPartnerRole: role })),
    PurchasingIsBlocked: isBlocked,
    CompanyCode: company['CompanyCode'],
    PurchasingOrganization: purchasing['PurchasingOrganization'],
  };
}

function heldValues(
  { head, address, emails, taxes, company, purchasing }: PartnerValues,
  roles: readonly string[],
  held: HeldPartner,
) {
  const { to_Supplier: supplier } = held;
  const { CompanyCode } = company;
  const { PurchasingOrganization } = purchasing;
  return {
    ...held,
    // SAP keeps search terms in capitals.
    ...(head['SearchTerm1']?.toUpperCase() === held.SearchTerm1.toUpperCase()
      ? { SearchTerm1: head['SearchTerm1'] }
      : {}),
    address: addressLike(address, held),
    emails: emailsLike(emails, held),
    taxes: held.to_BusinessPartnerTax.filter(({ BPTaxType }) => taxes.some((tax) => tax.BPTaxType === BPTaxType)),
    roles: held.to_BusinessPartnerRole.filter(({ BusinessPartnerRole }) => roles.includes(BusinessPartnerRole)),
    PurchasingIsBlocked: supplier?.PurchasingIsBlocked ?? false,
    CompanyCode: supplier?.to_SupplierCompany.find((one) => one.CompanyCode === CompanyCode)?.CompanyCode,
    PurchasingOrganization: supplier?.to_SupplierPurchasingOrg.find(
      (one) => one.PurchasingOrganization === PurchasingOrganization,
    )?.PurchasingOrganization,
  };
}

/** The address that is as it was written, else the first: SAP promises no order of them. */
function addressLike(wanted: PartnerValues['address'], { to_BusinessPartnerAddress: all }: HeldPartner) {
  const isAsWritten = (held: object) =>
    Object.entries(wanted ?? {}).every(([name, value]) => (held as Readonly<Record<string, unknown>>)[name] === value);
  return all.find(isAsWritten) ?? all[0];
}

/** Those of the document that SAP has at any address; upper and lower case are the same to a write, too. */
function emailsLike(wanted: PartnerValues['emails'], { to_BusinessPartnerAddress: addresses }: HeldPartner) {
  const held = addresses.flatMap(({ to_EmailAddress }) => to_EmailAddress);
  return wanted.flatMap((email) => {
    const same = held.filter(({ EmailAddress }) => EmailAddress.toLowerCase() === email.EmailAddress.toLowerCase());
    const remark = 'AddressCommunicationRemarkText';
    const found = same.find((one) => one[remark] === email[remark]) ?? same[0];
    return found ? [{ EmailAddress: email.EmailAddress, [remark]: found[remark] }] : [];
  });
}
