/**
 * Documents of the kind `supplier`: each becomes a contact of Odoo whose reference is the document's key. An existing
 * contact with that reference is taken over. An amendment writes the values that differ and adds people who are missing;
 * people and values that are only in Odoo stay, because the connector cannot tell who added them.
 */
import {
  asConnectorError,
  ConflictError,
  type ConnectorError,
  DataError,
  decide,
  dueOf,
  type Found,
  type Kind,
  newTask,
  type ReadBack,
  type SupplierDocument,
  type TakenDocument,
  type Task,
  TransientError,
  type Unclear,
  z,
} from 'sourcing-bridge/connector';
import { externalId, partId } from './external-ids.ts';
import { type LoadRecord, loadRecords } from './load.ts';
import { checkFields } from './lots.ts';
import { matchPartners } from './match-partners.ts';
import type { Odoo } from './odoo.ts';
import { addLastChanges } from './read-back.ts';
import { partnerFields, readSupplier, type WantedPartner } from './read-back-suppliers.ts';
import type { Settings } from './settings.ts';
import { fieldsOf, id, idIn, isSameText, oneLine, referenceTo, relation, text } from './values.ts';
import { type HeldPartner, listPartners, partnerModel, readPartners, singlePartner } from './vendors.ts';

const textFields = ['vat', 'email', 'phone', 'website', 'street', 'street2', 'city', 'zip'] as const;
export const supplierFields = ['name', ...textFields, 'country'] as const;

const countryRows = z.array(z.object({ id, code: text }));
const childRows = z.array(
  z.object({
    id,
    name: text,
    email: text,
    active: z.boolean(),
    parent_id: relation,
    write_uid: relation,
    write_date: text,
  }),
);
type Child = z.output<typeof childRows>[number];

interface SupplierTask extends Task<'supplier'> {
  held: HeldPartner | undefined;
  /** The record to load; undefined for an amendment. */
  record: LoadRecord | undefined;
  /** The values to write to the held contact. */
  values: Record<string, unknown>;
}

export function createSuppliers({ odoo, settings }: { odoo: Odoo; settings: Settings }): Kind<'supplier'> {
  async function countriesOf(documents: readonly SupplierDocument[], signal: AbortSignal) {
    const codes = [...new Set(documents.flatMap((document) => countryOf(document) ?? []))];
    if (codes.length === 0) return new Map<string, number>();
    const args = { domain: [['code', 'in', codes]], fields: ['code'] };
    const rows = await odoo.ask('res.country', 'search_read', args, countryRows, signal);
    return new Map(rows.map((row) => [row.code, row.id]));
  }

  async function childrenOf(partners: readonly HeldPartner[], signal: AbortSignal) {
    if (partners.length === 0) return new Map<number | undefined, Child[]>();
    const domain = [['parent_id', 'in', partners.map((partner) => partner.id)]];
    const args = { domain, fields: fieldsOf(childRows), order: 'id asc', context: { active_test: false } };
    const rows = await odoo.ask(partnerModel, 'search_read', args, childRows, signal);
    // An empty answer proves nothing: the contacts themselves say which people they have.
    const shown = new Set(rows.map((row) => row.id));
    if (partners.some(({ child_ids }) => child_ids.some((child) => !shown.has(child))))
      throw new TransientError('Odoo did not show all people of its vendors.');
    return Map.groupBy(rows, ({ parent_id }) => parent_id?.id);
  }

  async function send(tasks: readonly SupplierTask[], signal: AbortSignal): Promise<void> {
    const created = tasks.filter(({ record, error }) => record && !error);
    const records = created.map(({ record }) => record as LoadRecord);
    const results = await loadRecords(odoo, partnerModel, records, signal);
    for (const [index, task] of created.entries()) {
      const result = results[index];
      if (typeof result === 'number') task.reference = referenceTo(partnerModel, result);
      else task.error = result;
    }
    // Each has values of its own, and a contact that was there before may have no external id to load it by.
    let stop: ConnectorError | undefined;
    for (const task of dueOf(tasks)) {
      if (!task.held || Object.keys(task.values).length === 0) continue;
      task.error = stop ?? (signal.aborted ? new TransientError('stopped before it was sent') : undefined);
      if (task.error) continue;
      try {
        const args = { ids: [task.held.id], vals: task.values };
        await odoo.change(partnerModel, 'write', args, z.literal(true), signal);
      } catch (error) {
        task.error = asConnectorError(error);
        // Every other one would meet it, too.
        if (['auth', 'config', 'rate-limited', 'transient'].includes(task.error.type)) stop = task.error;
      }
    }
  }

  async function readBack(deliveries: readonly TakenDocument<'supplier'>[], signal: AbortSignal): Promise<ReadBack[]> {
    const codes = deliveries.map(({ document }) => document.key);
    const ids = deliveries.flatMap(({ reference }) => idIn(reference, partnerModel) ?? []);
    const partners = await listPartners(odoo, { codes, ids }, signal);
    const countries = await countriesOf(
      deliveries.map(({ document }) => document),
      signal,
    );
    const children = await childrenOf(partners, signal);
    const answers = deliveries.map((delivery): ReadBack => {
      const wanted = wantedPartner(delivery.document, countries);
      return readSupplier(delivery, wanted, partners, (partner) => children.get(partner.id) ?? []);
    });
    return addLastChanges(odoo, partnerModel, answers, signal, (partner) => children.get(partner) ?? []);
  }

  return {
    readBack,
    async plan(operations, signal) {
      const documents = operations.map(({ document }) => document);
      const keys = documents.map(({ key }) => key);
      const partners = await readPartners(odoo, keys, signal);
      const countries = await countriesOf(documents, signal);
      const unknown = documents.filter(({ key }) => !partners.has(key));
      const matches = await matchPartners(odoo, settings.match, unknown, signal);
      const matched = [...matches.values()].map(({ partner }) => partner);
      const children = await childrenOf([...[...partners.values()].flat(), ...matched], signal);
      const isAnyArchived = [...partners.values(), matched].flat().some(({ active }) => !active);
      const user = isAnyArchived ? (await odoo.user(signal)).uid : 0;
      const tasks = operations.map((operation) => {
        const own: SupplierTask = {
          ...newTask(operation),
          held: undefined,
          record: undefined,
          values: {},
        };
        return decide(own, (task) => {
          const { key } = operation.document;
          const match = matches.get(key);
          if (match?.conflict) throw match.conflict;
          if (match)
            task.steps.push(`Take the contact "${match.partner.name}" (id ${match.partner.id}), found by ${match.by}.`);
          task.held = match?.partner ?? singlePartner(key, partners.get(key));
          if (task.held) task.reference = referenceTo(partnerModel, task.held.id);
          if (task.held && isArchivedByPerson(task.held, operation.document, user)) throw archivedByPerson(task.held);
          else if (task.held) planAmend(task, task.held, children.get(task.held.id) ?? [], countries);
          else planCreate(task, countries);
        });
      });
      return { tasks, send: (signal) => send(tasks, signal) };
    },
    async lookup(documents, signal) {
      const partners = await readPartners(
        odoo,
        documents.map(({ key }) => key),
        signal,
      );
      return documents.flatMap(({ key }): (Found | Unclear)[] =>
        (partners.get(key) ?? []).map((partner) => ({
          key,
          reference: referenceTo(partnerModel, partner.id),
          // A contact does not record what was written last; an amendment compares the values instead.
          contentHash: undefined,
        })),
      );
    },
  };
}

/**
 * A vendor that a person has archived stays so. The bridge unarchives only what it has archived itself, which is where
 * it was the last to change the contact.
 */
function isArchivedByPerson(held: HeldPartner, { archived }: SupplierDocument, user: number): boolean {
  return !held.active && archived !== true && held.write_uid?.id !== user;
}

function archivedByPerson({ name, id: partner, write_uid }: HeldPartner): ConflictError {
  return new ConflictError(
    `The vendor "${name}" (id ${partner}) was archived in Odoo by a person (${write_uid?.name ?? 'unknown'} changed it last), and nothing was written: unarchive it there and replay, or archive the supplier at the service.`,
  );
}

function planCreate(task: SupplierTask, countries: ReadonlyMap<string, number>): void {
  const { document } = task.operation;
  const { key } = document;
  const { name, texts, country, people } = wantedPartner(document, countries);
  task.action = 'create';
  task.steps.push(`Make the vendor ${key} "${name}"${document.archived ? ', archived' : ''}.`);
  for (const person of people) task.steps.push(`Add the contact ${person.email}.`);
  task.record = {
    cells: {
      id: externalId('vendor', key),
      name,
      ref: key,
      supplier_rank: '1',
      is_company: '1',
      ...(document.archived ? { active: '0' } : {}),
      ...Object.fromEntries(Object.entries(texts).filter(([, value]) => value !== '')),
      ...(country === undefined ? {} : { 'country_id/.id': String(country.id) }),
    },
    ...(people.length === 0
      ? {}
      : {
          lines: {
            field: 'child_ids',
            rows: people.map(({ name: person, email }) => ({
              id: partId('contact', key, email),
              name: person,
              email,
              type: 'contact',
            })),
          },
        }),
  };
}

function planAmend(
  task: SupplierTask,
  held: HeldPartner,
  children: readonly Child[],
  countries: ReadonlyMap<string, number>,
): void {
  const { values, steps, operation } = task;
  const { document } = operation;
  const wanted = wantedPartner(document, countries);
  const { name, texts, country, people } = wanted;
  const writes: Readonly<Record<string, Record<string, unknown>>> = {
    ref: { ref: document.key },
    name: { name },
    country: { country_id: country?.id },
    vendor: { supplier_rank: 1 },
    archived: { active: !document.archived },
    ...Object.fromEntries(Object.entries(texts).map(([field, value]) => [field, { [field]: value || false }])),
  };
  for (const field of partnerFields(document, wanted, held, children)) {
    const write = writes[field.name];
    if (!write || field.expected === field.held) continue;
    Object.assign(values, write);
    steps.push(`Change the field ${field.name} from "${field.held ?? ''}" to "${field.expected ?? ''}".`);
  }
  const added = people.filter(({ email }) => !isSameText(email, held.email));
  const commands = added.flatMap((person): unknown[] => {
    const own = children.find(({ email }) => isSameText(email, person.email));
    if (!own) {
      steps.push(`Add the contact ${person.email}.`);
      return [[0, 0, { ...person, type: 'contact' }]];
    }
    if (own.name === person.name) return [];
    steps.push(`Rename the contact ${person.email} from "${own.name}" to "${person.name}".`);
    return [[1, own.id, { name: person.name }]];
  });
  if (commands.length > 0) values['child_ids'] = commands;
  if (steps.length > 0) task.action = 'amend';
}

function wantedPartner(document: SupplierDocument, countries: ReadonlyMap<string, number>): WantedPartner {
  const { fields = {}, contacts } = document;
  checkFields(fields, supplierFields, 'suppliers');
  const texts = Object.fromEntries(
    textFields.flatMap((field) => (fields[field] === undefined ? [] : [[field, oneLine(fields[field])]])),
  );
  const code = countryOf(document);
  const id = countries.get(code ?? '');
  if (code !== undefined && id === undefined)
    throw new DataError(`Odoo has no country with the code "${code}": use the two letters of the country, such as DE.`);
  // The vendor's own address is none of a person: `read` returns it as a contact, which comes back here.
  const people = contacts
    .map(({ name, email }) => ({ name: oneLine(name) || oneLine(email), email: oneLine(email) }))
    .filter(({ email }) => !isSameText(email, texts['email'] ?? ''));
  const country = code === undefined || id === undefined ? undefined : { id, code };
  return { name: oneLine(fields['name'] ?? document.name), texts, country, people };
}

function countryOf({ fields }: SupplierDocument): string | undefined {
  const code = fields?.['country']?.trim().toUpperCase();
  return code === '' ? undefined : code;
}
