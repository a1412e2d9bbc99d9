/**
 * Documents of the kind `supplier`: each becomes a party whose code is the document's key (the supplier's external id,
 * else its id). An amendment writes the values that differ and adds the values that are missing. Further contacts,
 * addresses and identifiers in Tryton stay, because the connector cannot tell who added them.
 */
import {
  asConnectorError,
  ConflictError,
  caseless,
  DataError,
  decide,
  type Found,
  fieldsOf,
  type Kind,
  newTask,
  type Operation,
  type ReadBack,
  type ReadField,
  type SupplierDocument,
  type Task,
  z,
} from 'sourcing-bridge/connector';
import { addressFields, checkFields, identifierPrefix, mechanismFields } from './mapping-fields.ts';
import { type HeldParty, readParties } from './parties.ts';
import { addChanges, answerEach } from './read-back.ts';
import type { Tryton } from './rpc.ts';
import { sendTasks } from './send-batch.ts';
import { id, idIn, ids, ifUnchanged, oneLine, type ReadRecord, referenceTo, text } from './values.ts';

const countryRows = z.array(z.object({ id, code: text }));

interface SupplierTask extends Task<'supplier'> {
  /** The party's values to send. */
  values: Record<string, unknown>;
  held: HeldParty | undefined;
}

const partyModel = 'party.party';
const referenceOf = (party: number) => referenceTo(partyModel, party);

export function createSuppliers({ tryton }: { tryton: Tryton }): Kind<'supplier'> {
  async function planEach(operations: readonly Operation<'supplier'>[], signal: AbortSignal): Promise<SupplierTask[]> {
    const documents = operations.map(({ document }) => document);
    const codes = documents.map(({ key }) => key);
    const parties = await readParties(tryton, [['code', 'in', codes]], signal);
    const byCode = new Map(parties.map((party) => [party.code, party]));
    const countries = await readCountries(documents, signal);
    return operations.map((operation) => planOne(operation, byCode.get(operation.document.key), countries));
  }

  async function readCountries(
    documents: readonly SupplierDocument[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, number>> {
    const codes = new Set(documents.flatMap((document) => countryOf(document) ?? []));
    if (codes.size === 0) return new Map();
    const rows = await tryton.ask(
      'country.country.search_read',
      [[['code', 'in', [...codes]]], 0, null, null, ['code']],
      countryRows,
      signal,
    );
    return new Map(rows.map((row) => [row.code, row.id]));
  }

  async function send(tasks: readonly SupplierTask[], signal: AbortSignal): Promise<void> {
    await sendTasks(
      tasks.filter(({ action }) => action === 'create'),
      async (batch) => tryton.change('party.party.create', [batch.map(({ values }) => values)], ids, signal),
      {
        signal,
        done: (task, created) => {
          task.reference = referenceOf(created);
        },
      },
    );
    await sendTasks(
      tasks.filter(({ action }) => action === 'amend'),
      async (batch) => {
        const pairs = batch.flatMap(({ held, values }) => [[held?.id], values]);
        const context = ifUnchanged(batch.flatMap(({ held }) => (held ? recordsOfParty(held) : [])));
        await tryton.change('party.party.write', pairs, z.unknown(), signal, context);
        return batch;
      },
      { signal },
    );
  }

  /**
   * If a party was refused because a user has created one with that code in the meantime, that party is amended
   * instead.
   */
  async function amendCreatedMeanwhile(refused: readonly SupplierTask[], signal: AbortSignal): Promise<void> {
    try {
      const again = await planEach(
        refused.map(({ operation }) => operation),
        signal,
      );
      await send(
        again.filter(({ held }) => held !== undefined),
        signal,
      );
      for (const [index, task] of refused.entries()) if (again[index]?.held) Object.assign(task, again[index]);
    } catch (error) {
      for (const task of refused) task.error = asConnectorError(error);
    }
  }

  return {
    async plan(operations, signal) {
      const tasks = await planEach(operations, signal);
      return {
        tasks,
        send: async (signal) => {
          await send(tasks, signal);
          const refused = tasks.filter(({ action, error }) => action === 'create' && error instanceof DataError);
          if (refused.length > 0 && !signal.aborted) await amendCreatedMeanwhile(refused, signal);
        },
      };
    },
    async readBack(deliveries, signal) {
      const documents = deliveries.map(({ document }) => document);
      const known = deliveries.flatMap(({ reference }) => idIn(reference, partyModel) ?? []);
      const domain = ['OR', ['code', 'in', documents.map(({ key }) => key)], ['id', 'in', known]];
      const parties = await readParties(tryton, domain, signal);
      const countries = await readCountries(documents, signal);
      const answers = answerEach(deliveries, ({ document, reference }): ReadBack => {
        const { key } = document;
        const own = parties.find((party) => referenceOf(party.id) === reference);
        const party = own ?? parties.find(({ code }) => code === key);
        if (!party) return { key, status: 'missing' };
        const fields = partyFieldsOf(document, party, countries);
        return { key, status: 'held', reference: referenceOf(party.id), fields };
      });
      return addChanges(tryton, answers, partyModel, signal);
    },
    async lookup(documents, signal) {
      const parties = await readParties(tryton, [['code', 'in', documents.map(({ key }) => key)]], signal);
      // A party does not record what was written last; an amendment compares the values instead.
      return parties.map(
        (party): Found => ({ key: party.code, reference: referenceOf(party.id), contentHash: undefined }),
      );
    },
  };
}

/** All records of the party, so that a change is refused if a user has changed one of them after it was read. */
function recordsOfParty(party: HeldParty): ReadRecord[] {
  return [
    ['party.party', party],
    ...party['addresses.'].map((row): ReadRecord => ['party.address', row]),
    ...party['identifiers.'].map((row): ReadRecord => ['party.identifier', row]),
    ...party['contact_mechanisms.'].map((row): ReadRecord => ['party.contact_mechanism', row]),
  ];
}

function planOne(
  operation: Operation<'supplier'>,
  held: HeldParty | undefined,
  countries: ReadonlyMap<string, number>,
): SupplierTask {
  const own: SupplierTask = { ...newTask(operation), values: {}, held };
  return decide(own, (task) => {
    if (held) task.reference = referenceOf(held.id);
    if (held && held.replaced_by !== null)
      throw new ConflictError(
        `The party ${held.code} "${held.name}" was merged into another party in Tryton: set the supplier's external id to that party's code.`,
      );
    if (held) planAmend(task, held, countries);
    else planCreate(task, countries);
  });
}

function planCreate(task: SupplierTask, countries: ReadonlyMap<string, number>): void {
  const { steps } = task;
  const { document } = task.operation;
  const wanted = wantedParty(document, countries);
  task.action = 'create';
  steps.push(`Make the party ${document.key} "${wanted.name}"${document.archived ? ', archived' : ''}.`);
  for (const { type, code } of wanted.identifiers) steps.push(`Add its identifier ${type}: ${code}.`);
  for (const { type, value } of wanted.mechanisms) steps.push(`Add its ${mechanismText(type)}: ${value}.`);
  task.values = {
    code: document.key,
    name: wanted.name,
    active: !document.archived,
    // Also an empty address: Tryton confirms no purchase from a party without one.
    addresses: [['create', [wanted.address]]],
    identifiers: [['create', wanted.identifiers]],
    contact_mechanisms: [['create', wanted.mechanisms]],
  };
}

function planAmend(task: SupplierTask, held: HeldParty, countries: ReadonlyMap<string, number>): void {
  const { values, steps } = task;
  const { document } = task.operation;
  const wanted = wantedParty(document, countries);
  if (held.name !== wanted.name) {
    values['name'] = wanted.name;
    steps.push(`Rename the party ${held.code} from "${held.name}" to "${wanted.name}".`);
  }
  if (held.active === document.archived) {
    values['active'] = !document.archived;
    steps.push(`${document.archived ? 'Archive' : 'Restore'} the party ${held.code} "${held.name}".`);
  }
  const addresses = addressCommands(held, wanted.address, steps);
  const identifiers = identifierCommands(held, wanted.identifiers, steps);
  const mechanisms = mechanismCommands(held, wanted.mechanisms, steps);
  if (addresses.length > 0) values['addresses'] = addresses;
  if (identifiers.length > 0) values['identifiers'] = identifiers;
  if (mechanisms.length > 0) values['contact_mechanisms'] = mechanisms;
  if (steps.length > 0) task.action = 'amend';
}

type Address = Readonly<Record<string, string | number>>;

function addressCommands({ 'addresses.': addresses }: HeldParty, wanted: Address, steps: string[]): unknown[] {
  const [address] = addresses.filter(({ active }) => active);
  if (!address) {
    if (Object.keys(wanted).length === 0) return [];
    steps.push(`Add the address: ${addressText(wanted)}.`);
    return [['create', [wanted]]];
  }
  const held: Record<string, unknown> = { ...address };
  const changed = Object.fromEntries(Object.entries(wanted).filter(([field, value]) => held[field] !== value));
  if (Object.keys(changed).length === 0) return [];
  steps.push(`Change the address: ${addressText(changed)}.`);
  return [['write', [address.id], changed]];
}

interface Identifier {
  readonly type: string;
  readonly code: string;
}

/** For comparisons: Tryton may keep a code without its blanks and dots. */
const compact = (code: string) => code.replaceAll(/[^\p{L}\p{N}]/gu, '').toUpperCase();

function identifierCommands(
  { 'identifiers.': held }: HeldParty,
  wanted: readonly Identifier[],
  steps: string[],
): unknown[] {
  return wanted.flatMap(({ type, code }): unknown[] => {
    const ofType = held.filter((identifier) => identifier.type === type);
    if (ofType.some((identifier) => compact(identifier.code) === compact(code))) return [];
    const [existing] = ofType;
    if (existing && ofType.length === 1) {
      steps.push(`Change the identifier ${type} from ${existing.code} to ${code}.`);
      return [['write', [existing.id], { code }]];
    }
    steps.push(`Add the identifier ${type}: ${code}.`);
    return [['create', [{ type, code }]]];
  });
}

interface Mechanism {
  readonly type: string;
  readonly value: string;
  readonly name?: string;
}

/** Adds and renames contacts. A contact that a user has archived stays archived. */
function mechanismCommands(
  { 'contact_mechanisms.': held }: HeldParty,
  wanted: readonly Mechanism[],
  steps: string[],
): unknown[] {
  return wanted.flatMap(({ type, value, name }): unknown[] => {
    const own = held.find((mechanism) => mechanism.type === type && isSameMechanism(type, mechanism.value, value));
    if (!own) {
      steps.push(`Add the ${mechanismText(type)}: ${value}.`);
      return [['create', [{ type, value, ...(name === undefined ? {} : { name }) }]]];
    }
    if (name === undefined || own.name === name) return [];
    steps.push(`Change the name at ${value} from "${own.name}" to "${name}".`);
    return [['write', [own.id], { name }]];
  });
}

/** Tryton may keep a phone number with other blanks. */
function isSameMechanism(type: string, held: string, wanted: string): boolean {
  if (type === 'email' || type === 'website') return caseless(held) === caseless(wanted);
  return held.replaceAll(/[^\d+]/gu, '') === wanted.replaceAll(/[^\d+]/gu, '');
}

function wantedParty(document: SupplierDocument, countries: ReadonlyMap<string, number>) {
  const { fields = {} } = document;
  const identifiers: Identifier[] = [];
  const others: Record<string, string> = {};
  for (const [name, value] of Object.entries(fields))
    if (name.startsWith(identifierPrefix))
      identifiers.push({ type: name.slice(identifierPrefix.length), code: oneLine(value) });
    else others[name] = value;
  checkFields(others, 'suppliers');
  const address: Record<string, string | number> = {};
  for (const name of addressFields) {
    const value = others[name];
    if (value === undefined) continue;
    if (name !== 'country') {
      address[name] = name === 'street' ? value : oneLine(value);
      continue;
    }
    const country = countries.get(countryOf(document) ?? '');
    if (country === undefined)
      throw new DataError(
        `Tryton has no country with the code "${value}": use the two letters of the country, such as DE, or create it there.`,
      );
    address[name] = country;
  }
  const mechanisms: Mechanism[] = [
    ...document.contacts.map(({ name, email }) => ({
      type: 'email',
      value: oneLine(email),
      ...(name === '' ? {} : { name: oneLine(name) }),
    })),
    ...mechanismFields.flatMap((type) => (others[type] === undefined ? [] : [{ type, value: oneLine(others[type]) }])),
  ];
  return { name: oneLine(others['name'] ?? document.name), address, identifiers, mechanisms };
}

/** What a write makes of the supplier beside what the party has; what users have added to it is left out. */
function partyFieldsOf(
  document: SupplierDocument,
  held: HeldParty,
  countries: ReadonlyMap<string, number>,
): ReadField[] {
  const { name, address, identifiers, mechanisms } = wantedParty(document, countries);
  const [active] = held['addresses.'].filter((row) => row.active);
  const heldAddress: Readonly<Record<string, unknown>> = { ...active };
  const codes = new Map([...countries].map(([code, country]) => [country, code]));
  const shownAddress = (values: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      Object.keys(address).map((field) => {
        const value = values[field];
        return [
          field,
          field === 'country' && typeof value === 'number' ? (codes.get(value) ?? `country ${value}`) : value,
        ];
      }),
    );
  const expected = {
    code: document.key,
    name,
    archived: document.archived === undefined ? undefined : String(document.archived),
    merged: null,
    address: shownAddress(address),
    identifiers: identifiers.map(({ type, code }) => ({ type, code })),
    contacts: mechanisms.map(({ type, value, name: contact }) => ({ value, type, name: contact })),
  };
  const seen = {
    code: held.code,
    name: held.name,
    archived: String(!held.active),
    merged: held.replaced_by === null ? null : 'into another party',
    address: shownAddress(heldAddress),
    identifiers: identifiers.flatMap(({ type, code }) => {
      const ofType = held['identifiers.'].filter((identifier) => identifier.type === type);
      if (ofType.some((identifier) => compact(identifier.code) === compact(code))) return [{ type, code }];
      return ofType.slice(0, 1).map((identifier) => ({ type, code: identifier.code }));
    }),
    contacts: mechanisms.flatMap(({ type, value }) => {
      const own = held['contact_mechanisms.'].find(
        (mechanism) => mechanism.active && mechanism.type === type && isSameMechanism(type, mechanism.value, value),
      );
      return own ? [{ value, type, name: own.name }] : [];
    }),
  };
  return fieldsOf(expected, seen, { names: ['value', 'type'] });
}

function countryOf({ fields }: SupplierDocument): string | undefined {
  return fields?.['country']?.trim().toUpperCase();
}

function addressText(address: Address): string {
  return Object.entries(address)
    .filter(([field]) => field !== 'country')
    .map(([field, value]) => `${field.replaceAll('_', ' ')} "${value}"`)
    .concat('country' in address ? ['country'] : [])
    .join(', ');
}

function mechanismText(type: string): string {
  return type === 'email' ? 'e-mail address' : type;
}
