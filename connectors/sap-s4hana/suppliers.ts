/**
 * Suppliers as business partners with the role of a supplier. A new one is one request. A change writes what differs, one
 * request for each part; what is only in SAP (further addresses, e-mail addresses, tax numbers) stays, because the
 * connector cannot tell who added it. SAP keeps no hash of the document, so after a kill the change is compared again.
 */
import {
  ConflictError,
  ConnectorError,
  DataError,
  type Operation,
  type Outcome,
  outcomeOf,
  type ReadBack,
  type SupplierDocument,
  type TakenDocument,
  UnknownOutcome,
  writeEach,
  z,
} from 'sourcing-bridge/connector';
import { findPartners, type HeldPartner, listPartners } from './held-partners.ts';
import { type Deps, type Kind, referenceOf } from './kind.ts';
import { anyOf, entityPath } from './odata.ts';
import { addressBody, type PartnerValues, partnerBody, partnerOf } from './partner-values.ts';
import { partnerService } from './partners.ts';
import { readBusinessPartner } from './read-back-partners.ts';

type SupplierOperation = Operation<'supplier'>;

const objectName = 'BusinessPartner';
const lostPerRequest = 20;

/** One request, and what it does in words. */
interface Step {
  readonly what: string;
  readonly method: 'POST' | 'PATCH';
  readonly path: string;
  readonly body: object;
  readonly etag?: string | undefined;
}

type Task =
  | { readonly values: PartnerValues; readonly held: undefined }
  | { readonly values: PartnerValues; readonly held: HeldPartner; readonly steps: readonly Step[] };

const madeForm = z.object({ BusinessPartner: z.string().min(1) });

export function createSuppliers({ odata, settings, partners }: Deps): Kind<'supplier'> {
  const keysOf = (documents: readonly SupplierDocument[]) => documents.map(({ key }) => key);

  function taskOf({ document }: SupplierOperation, found: readonly HeldPartner[]): Task {
    const [held, second] = found;
    if (second)
      throw new ConflictError(
        `SAP holds several business partners for ${document.key}: ${found.map(({ BusinessPartner }) => BusinessPartner).join(', ')}. Leave the number in an external system to one of them.`,
      );
    const values = partnerOf(document, settings);
    if (held) return { values, held, steps: stepsOf(values, held) };
    if (settings.supplier_number === 'sap')
      throw new DataError(
        `SAP has no supplier ${document.key}, and with settings.supplier_number sap the connector makes none`,
      );
    return { values, held: undefined };
  }

  /** What differs between the document and SAP's partner. */
  function stepsOf(values: PartnerValues, held: HeldPartner): Step[] {
    const { BusinessPartner: number, __metadata, to_Supplier: supplier } = held;
    const path = entityPath('A_BusinessPartner', number);
    const steps: Step[] = [];
    const head = changed(values.head, held);
    if (head)
      steps.push({ what: `the name: ${shown(head)}`, method: 'PATCH', path, body: head, etag: __metadata?.etag });
    steps.push(...addressSteps(values, held), ...taxSteps(values, held));
    const roles = new Set(held.to_BusinessPartnerRole.map(({ BusinessPartnerRole }) => BusinessPartnerRole));
    for (const role of settings.supplier_roles)
      if (!roles.has(role))
        steps.push({
          what: `the role ${role}`,
          method: 'POST',
          path: `${path}/to_BusinessPartnerRole`,
          body: { BusinessPartnerRole: role },
        });
    const supplierNumber = supplier?.Supplier ?? number;
    const supplierPath = entityPath('A_Supplier', supplierNumber);
    if (values.isBlocked !== undefined && values.isBlocked !== (supplier?.PurchasingIsBlocked ?? false))
      steps.push({
        what: values.isBlocked ? 'the block for purchasing' : 'the end of the block for purchasing',
        method: 'PATCH',
        path: supplierPath,
        body: { PurchasingIsBlocked: values.isBlocked },
        etag: supplier?.__metadata?.etag,
      });
    if (!supplier?.to_SupplierCompany.some(({ CompanyCode }) => CompanyCode === values.company['CompanyCode']))
      steps.push({
        what: `company code ${values.company['CompanyCode']}`,
        method: 'POST',
        path: `${supplierPath}/to_SupplierCompany`,
        body: values.company,
      });
    const organization = values.purchasing['PurchasingOrganization'];
    if (
      !supplier?.to_SupplierPurchasingOrg.some(({ PurchasingOrganization }) => PurchasingOrganization === organization)
    )
      steps.push({
        what: `purchasing organization ${organization}`,
        method: 'POST',
        path: `${supplierPath}/to_SupplierPurchasingOrg`,
        body: values.purchasing,
      });
    return steps;
  }

  function addressSteps({ address, emails }: PartnerValues, held: HeldPartner): Step[] {
    const { BusinessPartner: number } = held;
    const [first] = held.to_BusinessPartnerAddress;
    if (!first)
      return address
        ? [
            {
              what: 'the address',
              method: 'POST',
              path: `${entityPath('A_BusinessPartner', number)}/to_BusinessPartnerAddress`,
              body: addressBody(address, emails, settings),
            },
          ]
        : [];
    const path = entityPath('A_BusinessPartnerAddress', { BusinessPartner: number, AddressID: first.AddressID });
    const change = address && changed(address, first);
    const steps: Step[] = change
      ? [{ what: `the address: ${shown(change)}`, method: 'PATCH', path, body: change, etag: first.__metadata?.etag }]
      : [];
    for (const email of emails) {
      const known = first.to_EmailAddress.find(({ EmailAddress }) => isSameEmail(EmailAddress, email.EmailAddress));
      if (!known)
        steps.push({
          what: `the e-mail address ${email.EmailAddress}`,
          method: 'POST',
          path: `${path}/to_EmailAddress`,
          body: email,
        });
      else if (known.AddressCommunicationRemarkText !== email.AddressCommunicationRemarkText)
        steps.push({
          what: `the name at ${email.EmailAddress}`,
          method: 'PATCH',
          path: entityPath('A_AddressEmailAddress', {
            AddressID: known.AddressID,
            Person: known.Person,
            OrdinalNumber: known.OrdinalNumber,
          }),
          body: { AddressCommunicationRemarkText: email.AddressCommunicationRemarkText },
          etag: known.__metadata?.etag,
        });
    }
    return steps;
  }

  function taxSteps({ taxes }: PartnerValues, held: HeldPartner): Step[] {
    const { BusinessPartner: number } = held;
    return taxes.flatMap((tax): Step[] => {
      const known = held.to_BusinessPartnerTax.find(({ BPTaxType }) => BPTaxType === tax.BPTaxType);
      const what = `tax number ${tax.BPTaxType}`;
      if (!known)
        return [
          { what, method: 'POST', path: `${entityPath('A_BusinessPartner', number)}/to_BusinessPartnerTax`, body: tax },
        ];
      if (known.BPTaxNumber === tax.BPTaxNumber) return [];
      const path = entityPath('A_BusinessPartnerTaxNumber', { BusinessPartner: number, BPTaxType: tax.BPTaxType });
      return [{ what, method: 'PATCH', path, body: { BPTaxNumber: tax.BPTaxNumber }, etag: known.__metadata?.etag }];
    });
  }

  async function perform(task: Task, signal: AbortSignal): Promise<Outcome> {
    if (!task.held) {
      const { entity } = await odata.post(
        partnerService,
        'A_BusinessPartner',
        partnerBody(task.values, settings),
        signal,
      );
      const { data } = madeForm.safeParse(entity);
      if (!data)
        throw new UnknownOutcome('SAP made a business partner and did not return its number', { answered: true });
      return { status: 'created', reference: referenceOf(objectName, data.BusinessPartner) };
    }
    const reference = referenceOf(objectName, task.held.BusinessPartner);
    const done: string[] = [];
    for (const { what, method, path, body, etag } of task.steps)
      try {
        if (method === 'POST') await odata.post(partnerService, path, body, signal);
        else await odata.patch(partnerService, path, body, etag, signal);
        done.push(what);
      } catch (error) {
        if (error instanceof ConnectorError)
          error.message = `${reference}, ${what}: ${error.message}${done.length > 0 ? ` (changed before that: ${done.join(', ')})` : ''}`;
        throw error;
      }
    return { status: task.steps.length > 0 ? 'updated' : 'unchanged', reference };
  }

  /** By the supplier's number, and by the reference where a person has changed that number. */
  async function findDelivered(deliveries: readonly TakenDocument<'supplier'>[], signal: AbortSignal) {
    const byKey = await findPartners(odata, keysOf(deliveries.map(({ document }) => document)), settings, signal);
    const numberIn = (reference: string | undefined) => /^BusinessPartner\/(.+)$/u.exec(reference ?? '')?.[1];
    const lost = deliveries.flatMap(({ document, reference }) => {
      const number = numberIn(reference);
      const isFound = (byKey.get(document.key) ?? []).some(({ BusinessPartner }) => BusinessPartner === number);
      return number === undefined || isFound ? [] : [number];
    });
    const others: HeldPartner[] = [];
    for (let from = 0; from < lost.length; from += lostPerRequest)
      others.push(
        ...(await listPartners(
          odata,
          { filter: anyOf('BusinessPartner', lost.slice(from, from + lostPerRequest)) },
          signal,
        )),
      );
    return ({ document, reference }: TakenDocument<'supplier'>): HeldPartner[] => [
      ...(byKey.get(document.key) ?? []),
      ...others.filter(({ BusinessPartner }) => BusinessPartner === numberIn(reference)),
    ];
  }

  return {
    async write(operations, signal) {
      let found: Map<string, HeldPartner[]>;
      try {
        found = await findPartners(odata, keysOf(operations.map(({ document }) => document)), settings, signal);
      } catch (error) {
        // Nothing was sent but questions.
        return operations.map(() => outcomeOf(error));
      }
      const write = async (operation: SupplierOperation) => {
        const outcome = await perform(taskOf(operation, found.get(operation.document.key) ?? []), signal);
        const { key, name } = operation.document;
        if (outcome.status === 'created') partners.forget({ id: key, name });
        return outcome;
      };
      return writeEach(operations, write, { signal, atOnce: settings.connections });
    },
    async plan(operations, signal) {
      const found = await findPartners(odata, keysOf(operations.map(({ document }) => document)), settings, signal);
      return operations.map((operation) => {
        const { key } = operation.document;
        try {
          const task = taskOf(operation, found.get(key) ?? []);
          if (!task.held)
            return { key, action: 'create' as const, steps: [`create a business partner ${task.values.external}`] };
          const steps = task.steps.map(({ what, method }) => `${method === 'POST' ? 'add' : 'change'} ${what}`);
          return { key, action: steps.length > 0 ? ('amend' as const) : ('none' as const), steps };
        } catch (error) {
          if (!(error instanceof ConnectorError)) throw error;
          return { key, action: operation.action, steps: [`cannot be written: ${error.message}`] };
        }
      });
    },
    async readBack(deliveries, signal) {
      const found = await findDelivered(deliveries, signal);
      return deliveries.map((delivery): ReadBack => {
        const { document } = delivery;
        try {
          const wanted = { values: partnerOf(document, settings), roles: settings.supplier_roles };
          return readBusinessPartner(delivery, wanted, found(delivery));
        } catch (error) {
          if (!(error instanceof ConnectorError)) throw error;
          return { key: document.key, status: 'unclear', reason: error.message };
        }
      });
    },
    async lookup(documents, signal) {
      const found = await findPartners(odata, keysOf(documents), settings, signal);
      return [...found].flatMap(([key, held]) =>
        held.map(({ BusinessPartner }) => ({
          key,
          reference: referenceOf(objectName, BusinessPartner),
          contentHash: undefined,
        })),
      );
    },
  };
}

/** The fields that differ; undefined for none. */
function changed(wanted: Readonly<Record<string, string>>, held: object): Record<string, string> | undefined {
  const members = held as Readonly<Record<string, unknown>>;
  const fields = Object.entries(wanted).filter(([name, value]) => members[name] !== value);
  return fields.length > 0 ? Object.fromEntries(fields) : undefined;
}

function shown(fields: Readonly<Record<string, string>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

function isSameEmail(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
