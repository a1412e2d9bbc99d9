/**
 * Suppliers as business partners with the role of a supplier. A new one is one request. A change writes what differs, one
 * request for each part; what is only in SAP (further addresses, e-mail addresses, tax numbers) stays, because the
 * connector cannot tell who added it. SAP keeps no hash of the document, so after a kill the change is compared again.
 */
import {
  ConflictError,
  caseless,
  type Kind,
  type Operation,
  type TakenDocument,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import { findPartners, type HeldPartner, listPartnersAny, person } from './held-partners.ts';
import { type Decision, type Deps, kindOfParts, nothingToDo, referenceOf } from './kind.ts';
import { equals } from './odata.ts';
import {
  addressBody,
  expectSupplierData,
  nameFields,
  ownBlock,
  type PartnerValues,
  partnerBody,
  partnerOf,
} from './partner-values.ts';
import { partnerService } from './partners.ts';
import { readBusinessPartner } from './read-back-partners.ts';
import { changed, isSameCode, shown } from './sap-values.ts';
import type { Settings } from './settings.ts';

type Held = ReadonlyMap<string, readonly HeldPartner[]>;

const objectName = 'BusinessPartner';
const made = z.object({ BusinessPartner: z.string().min(1) });

export function createSuppliers(deps: Deps): Kind<'supplier'> {
  const { odata, settings } = deps;
  return kindOfParts<'supplier', Held>(
    {
      read: (operations, signal) =>
        findPartners(
          odata,
          operations.map(({ document }) => document.key),
          signal,
        ),
      decideOn: (operation, held) => decideOn(deps, operation, held.get(operation.document.key) ?? []),
      async lookup(documents, signal) {
        const found = await findPartners(
          odata,
          documents.map(({ key }) => key),
          signal,
        );
        return [...found].flatMap(([key, held]) =>
          held.map((partner) => ({ key, reference: numberOf(partner), contentHash: undefined })),
        );
      },
      async readBack(deliveries, signal) {
        const found = await findDelivered(deps, deliveries, signal);
        return deliveries.map((delivery) => {
          const wanted = { values: partnerOf(delivery.document, settings), roles: settings.supplier_roles };
          return readBusinessPartner(delivery, wanted, found(delivery));
        });
      },
    },
    deps,
  );
}

function decideOn(
  { odata, settings, log }: Deps,
  { document }: Operation<'supplier'>,
  found: readonly HeldPartner[],
): Decision {
  const [held, second] = found;
  if (second)
    throw new ConflictError(
      `SAP holds several business partners for ${document.key}: ${found.map(({ BusinessPartner }) => BusinessPartner).join(', ')}. Leave the number in an external system to one of them.`,
    );
  const values = partnerOf(document, settings);
  if (!held) {
    expectSupplierData(values);
    return {
      action: 'create',
      steps: [`create a business partner ${values.external}`],
      reference: '',
      run: async (signal) => {
        const body = partnerBody(values, settings);
        const change = { what: 'create', method: 'POST', set: 'A_BusinessPartner', body } as const;
        const { data } = made.safeParse(await odata.change(partnerService, change, signal));
        if (!data)
          throw new UnknownOutcome('SAP made a business partner and did not return its number', { answered: true });
        return referenceOf(objectName, data.BusinessPartner);
      },
    };
  }
  const changes = changesOf(values, held, settings);
  if (values.isBlocked === false && isBlocked(held) && !isOwnBlock(held))
    log.info('a block for purchasing that the connector has not set stays', { supplier: held.Supplier });
  if (changes.length === 0) return nothingToDo(numberOf(held));
  return {
    action: 'amend',
    steps: changes.map(({ what, method }) => `${method === 'POST' ? 'add' : 'change'} ${what}`),
    reference: numberOf(held),
    run: async (signal) => {
      await odata.changeEach(partnerService, changes, numberOf(held), signal);
      return numberOf(held);
    },
  };
}

/** What differs between the document and SAP's partner. */
function changesOf(values: PartnerValues, held: HeldPartner, settings: Settings): Change[] {
  const entity = partnerEntity(held);
  const head = changed({ ...nameFields(values.name, held.BusinessPartnerCategory === person), ...values.head }, held);
  const roles = new Set(held.to_BusinessPartnerRole.map(({ BusinessPartnerRole }) => BusinessPartnerRole));
  return [
    ...(Object.keys(head).length > 0 ? [patchOf(`the name: ${shown(head)}`, entity, head, held.__metadata?.etag)] : []),
    ...addressChanges(values, held, settings),
    ...taxChanges(values, held),
    ...settings.supplier_roles
      .filter((role) => !roles.has(role))
      .map((role) => postOf(`the role ${role}`, entity, 'to_BusinessPartnerRole', { BusinessPartnerRole: role })),
    ...blockChanges(values, held),
    ...supplierChanges(values, held),
  ];
}

function isBlocked({ to_Supplier }: HeldPartner): boolean {
  return to_Supplier?.PurchasingIsBlocked === true;
}

function isOwnBlock({ SearchTerm2 }: HeldPartner): boolean {
  return SearchTerm2.trimEnd() === ownBlock;
}

/** The mark is there before the block, and goes after it: so a kill in between leaves no block without its mark. */
function blockChanges({ isBlocked: isWanted }: PartnerValues, held: HeldPartner): Change[] {
  const { SearchTerm2, to_Supplier: supplier } = held;
  const block = (what: string) =>
    patchOf(what, supplierEntity(held), { PurchasingIsBlocked: isWanted }, supplier?.__metadata?.etag);
  // Without its ETag: the change of the name before it may have changed that.
  const mark = (what: string, term: string) => patchOf(what, partnerEntity(held), { SearchTerm2: term }, undefined);
  if (isWanted === true && !isBlocked(held)) {
    const isFree = SearchTerm2.trimEnd() === '';
    return [...(isFree ? [mark('the mark of the block', ownBlock)] : []), block('the block for purchasing')];
  }
  if (isWanted !== false || !isOwnBlock(held)) return [];
  return [
    ...(isBlocked(held) ? [block('the end of the block for purchasing')] : []),
    mark('the mark of the block', ''),
  ];
}

/** The data of the company and of the purchasing organization, where they are missing. */
function supplierChanges(values: PartnerValues, held: HeldPartner): Change[] {
  const { company, purchasing } = values;
  const { to_Supplier: supplier } = held;
  const entity = supplierEntity(held);
  const code = company['CompanyCode'];
  const organization = purchasing['PurchasingOrganization'];
  const changes = [
    ...(supplier?.to_SupplierCompany.some(({ CompanyCode }) => CompanyCode === code)
      ? []
      : [postOf(`company code ${code}`, entity, 'to_SupplierCompany', company)]),
    ...(supplier?.to_SupplierPurchasingOrg.some((one) => one.PurchasingOrganization === organization)
      ? []
      : [postOf(`purchasing organization ${organization}`, entity, 'to_SupplierPurchasingOrg', purchasing)]),
  ];
  if (changes.length > 0) expectSupplierData(values);
  return changes;
}

function addressChanges({ address, emails }: PartnerValues, held: HeldPartner, settings: Settings): Change[] {
  const { BusinessPartner, to_BusinessPartnerAddress: addresses } = held;
  const [first] = addresses;
  if (!first) {
    const body = address && addressBody(address, emails, settings);
    return body ? [postOf('the address', partnerEntity(held), 'to_BusinessPartnerAddress', body)] : [];
  }
  const entity = { set: 'A_BusinessPartnerAddress', key: { BusinessPartner, AddressID: first.AddressID } };
  const change = changed(address ?? {}, first);
  return [
    ...(Object.keys(change).length > 0
      ? [patchOf(`the address: ${shown(change)}`, entity, change, first.__metadata?.etag)]
      : []),
    ...emails.flatMap((email): Change[] => {
      const { EmailAddress, AddressCommunicationRemarkText } = email;
      const known = first.to_EmailAddress.find((one) => isSameEmail(one.EmailAddress, EmailAddress));
      if (!known) return [postOf(`the e-mail address ${EmailAddress}`, entity, 'to_EmailAddress', email)];
      const remark = changed({ AddressCommunicationRemarkText }, known);
      if (Object.keys(remark).length === 0) return [];
      const { AddressID, Person, OrdinalNumber, __metadata } = known;
      const own = { set: 'A_AddressEmailAddress', key: { AddressID, Person, OrdinalNumber } };
      return [patchOf(`the name at ${EmailAddress}`, own, remark, __metadata?.etag)];
    }),
  ];
}

function taxChanges({ taxes }: PartnerValues, held: HeldPartner): Change[] {
  const { BusinessPartner } = held;
  return taxes.flatMap((tax): Change[] => {
    const { BPTaxType, BPTaxNumber } = tax;
    const known = held.to_BusinessPartnerTax.find((one) => one.BPTaxType === BPTaxType);
    const what = `tax number ${BPTaxType}`;
    if (!known) return [postOf(what, partnerEntity(held), 'to_BusinessPartnerTax', tax)];
    const change = changed({ BPTaxNumber }, known);
    if (Object.keys(change).length === 0) return [];
    const entity = { set: 'A_BusinessPartnerTaxNumber', key: { BusinessPartner, BPTaxType } };
    return [patchOf(what, entity, change, known.__metadata?.etag)];
  });
}

type Entity = Pick<Change, 'set' | 'key'>;

function partnerEntity({ BusinessPartner }: HeldPartner): Entity {
  return { set: 'A_BusinessPartner', key: BusinessPartner };
}

function supplierEntity({ BusinessPartner, Supplier, to_Supplier: supplier }: HeldPartner): Entity {
  return { set: 'A_Supplier', key: supplier?.Supplier ?? (Supplier === '' ? BusinessPartner : Supplier) };
}

function patchOf(what: string, entity: Entity, body: object, etag: string | undefined): Change {
  return { what, method: 'PATCH', ...entity, body, etag };
}

function postOf(what: string, entity: Entity, navigation: string, body: object): Change {
  return { what, method: 'POST', ...entity, navigation, body };
}

/** By the supplier's number, and by the reference where a person has changed that number. */
async function findDelivered({ odata }: Deps, deliveries: readonly TakenDocument<'supplier'>[], signal: AbortSignal) {
  const byKey = await findPartners(
    odata,
    deliveries.map(({ document }) => document.key),
    signal,
  );
  const numberIn = (reference: string | undefined) => /^BusinessPartner\/(.+)$/u.exec(reference ?? '')?.[1];
  const lost = deliveries.flatMap(({ document, reference }) => {
    const number = numberIn(reference);
    const isFound = (byKey.get(document.key) ?? []).some((one) => isSameCode(one.BusinessPartner, number ?? ''));
    return number === undefined || isFound ? [] : [number];
  });
  const others = await listPartnersAny(odata, equals('BusinessPartner', lost), signal);
  return ({ document, reference }: TakenDocument<'supplier'>): HeldPartner[] => [
    ...(byKey.get(document.key) ?? []),
    ...others.filter(({ BusinessPartner }) => isSameCode(BusinessPartner, numberIn(reference) ?? '')),
  ];
}

function numberOf({ BusinessPartner }: HeldPartner): string {
  return referenceOf(objectName, BusinessPartner);
}

function isSameEmail(a: string, b: string): boolean {
  return caseless(a) === caseless(b);
}
