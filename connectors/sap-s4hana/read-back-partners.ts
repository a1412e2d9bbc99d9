/**
 * What SAP holds of a supplier as a business partner, field by field, beside what a write makes of it. What is only in SAP
 * (further addresses, e-mail addresses, tax numbers, roles) is not compared: users add it.
 */
import { caseless, fieldsOf, type ReadBack, type TakenDocument } from 'sourcing-bridge/connector';
import { type HeldPartner, person } from './held-partners.ts';
import { referenceOf } from './kind.ts';
import { nameFields, type PartnerValues } from './partner-values.ts';
import { differing, isSameCode, sapValue } from './sap-values.ts';

/** `found` are the partners with the supplier's number, and the one of the reference. */
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
    return { key, status: 'unclear', reason: `SAP did not show the supplier data of ${referenceTo(own)}` };
  const hasEmails = values.emails.length > 0 && values.address === undefined;
  return {
    key,
    status: 'held',
    reference: referenceTo(own),
    fields: fieldsOf(wantedValues(values, roles, key, own), heldValues(values, roles, own), {
      names: ['EmailAddress', 'BPTaxType', 'BusinessPartnerRole'],
    }),
    notCompared: [
      'the other values of company code and purchasing organization',
      ...(hasEmails ? ['the e-mail addresses: SAP keeps them with an address, and none was written'] : []),
    ],
  };
}

/** A partner that was found by SAP's own number keeps what it has as the number in an external system. */
function wantedValues(values: PartnerValues, roles: readonly string[], key: string, held: HeldPartner) {
  const { external, name, head, address, emails, taxes, isBlocked, company, purchasing } = values;
  return {
    ...(isSameCode(held.Supplier, key) ? {} : { BusinessPartnerIDByExtSystem: external }),
    ...nameFields(name, held.BusinessPartnerCategory === person),
    ...asKept(head),
    ...(address ? { address: asKept(address), emails } : {}),
    taxes,
    roles: roles.map((role) => ({ BusinessPartnerRole: role })),
    PurchasingIsBlocked: isBlocked,
    CompanyCode: company['CompanyCode'],
    PurchasingOrganization: purchasing['PurchasingOrganization'],
  };
}

function heldValues(
  { address, emails, taxes, company, purchasing }: PartnerValues,
  roles: readonly string[],
  held: HeldPartner,
) {
  const { to_Supplier: supplier } = held;
  const { CompanyCode } = company;
  const { PurchasingOrganization } = purchasing;
  const place = addressLike(address, held);
  return {
    ...held,
    address: place && asKept(place),
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

function asKept(fields: object): Record<string, string> {
  const texts = Object.entries(fields).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(texts.map(([name, value]) => [name, sapValue(name, value)]));
}

/** The address that is as it was written, else the first: SAP promises no order of them. */
function addressLike(wanted: PartnerValues['address'], { to_BusinessPartnerAddress: all }: HeldPartner) {
  const isAsWritten = (held: object) => differing(wanted ?? {}, held).length === 0;
  return all.find(isAsWritten) ?? all[0];
}

/** Those of the document that SAP has at any address; upper and lower case are the same to a write, too. */
function emailsLike(wanted: PartnerValues['emails'], { to_BusinessPartnerAddress: addresses }: HeldPartner) {
  const held = addresses.flatMap(({ to_EmailAddress }) => to_EmailAddress);
  return wanted.flatMap((email) => {
    const same = held.filter(({ EmailAddress }) => caseless(EmailAddress) === caseless(email.EmailAddress));
    const remark = 'AddressCommunicationRemarkText';
    const found = same.find((one) => one[remark] === email[remark]) ?? same[0];
    return found ? [{ EmailAddress: email.EmailAddress, [remark]: found[remark] }] : [];
  });
}
