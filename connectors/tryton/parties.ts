/**
 * Suppliers as parties in Tryton. A supplier's party has the supplier's external id as its code, else the id of the
 * sourcing service. The code is unique in Tryton: a second party with the same code is refused, even if both are
 * created at the same time. A party with that code that a user created is the supplier's party, too.
 */
import {
  asConnectorError,
  DataError,
  type Progress,
  type SupplierHead,
  TransientError,
  z,
} from 'sourcing-bridge/connector';
import type { Tryton } from './rpc.ts';
import { sendTasks } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { fieldNames, flag, id, ids, oneLine, text, timestamp } from './values.ts';

const partyRows = z.array(
  z.object({
    id,
    code: z.string(),
    name: text,
    active: flag,
    replaced_by: id.nullable(),
    supplier_payment_term: id.nullish(),
    supplier_tax_rule: id.nullish(),
    _timestamp: timestamp,
    'addresses.': z.array(
      z.object({
        id,
        active: flag,
        invoice: flag,
        street: text,
        postal_code: text,
        city: text,
        country: id.nullable(),
        _timestamp: timestamp,
      }),
    ),
    'identifiers.': z.array(z.object({ id, type: text, code: text, _timestamp: timestamp })),
    'contact_mechanisms.': z.array(
      z.object({ id, active: flag, type: z.string(), value: text, name: text, _timestamp: timestamp }),
    ),
  }),
);

const partyFields = fieldNames('code name active replaced_by supplier_payment_term supplier_tax_rule _timestamp', {
  addresses: 'active invoice street postal_code city country _timestamp',
  identifiers: 'type code _timestamp',
  contact_mechanisms: 'active type value name _timestamp',
});

export type HeldParty = z.output<typeof partyRows>[number];

/** The parties of a search, archived ones included. */
export async function readParties(
  tryton: Tryton,
  domain: readonly unknown[],
  signal: AbortSignal,
): Promise<HeldParty[]> {
  const params = [domain, 0, null, [['id', 'ASC']], partyFields];
  return tryton.ask('party.party.search_read', params, partyRows, signal, { active_test: false });
}

/** The party that an order goes to. */
export interface Supplier {
  /** Undefined until `createMissingSuppliers` has created the party. */
  id: number | undefined;
  readonly code: string;
  readonly name: string;
  address: number | undefined;
  readonly paymentTerm: number | undefined;
  readonly hasTaxRule: boolean;
}

/** The code of the supplier's party. */
export function codeOf({ external_id, id }: { external_id?: string | undefined; id?: string | undefined }): string {
  return external_id ?? id ?? '';
}

/** The suppliers by code. If Tryton has merged a party into another one, the supplier is that other party. */
export async function findSuppliers(
  tryton: Tryton,
  heads: readonly SupplierHead[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Supplier>> {
  const names = new Map(heads.map((head) => [codeOf(head), oneLine(head.name)]));
  if (names.size === 0) return new Map();
  const rows = await readParties(tryton, [['code', 'in', [...names.keys()]]], signal);
  const replacements = rows.flatMap(({ replaced_by }) => (replaced_by === null ? [] : [replaced_by]));
  const others = replacements.length === 0 ? [] : await readParties(tryton, [['id', 'in', replacements]], signal);
  const suppliers = new Map<string, Supplier>();
  for (const [code, name] of names) {
    const own = rows.find((row) => row.code === code);
    const row = others.find((other) => other.id === own?.replaced_by) ?? own;
    const addresses = (row?.['addresses.'] ?? []).filter(({ active }) => active);
    suppliers.set(code, {
      id: row?.id,
      code: row?.code ?? code,
      name: row?.name ?? name,
      address: (addresses.find(({ invoice }) => invoice) ?? addresses[0])?.id,
      paymentTerm: row?.supplier_payment_term ?? undefined,
      hasTaxRule: (row?.supplier_tax_rule ?? null) !== null,
    });
  }
  return suppliers;
}

/**
 * For a supplier that Tryton does not have: throws DataError, or adds the step that creates it, as the settings say.
 */
export function planMissingSupplier(supplier: Supplier, settings: Settings, steps: string[]): void {
  if (supplier.id !== undefined) return;
  if (settings.missing_supplier === 'reject')
    throw new DataError(
      `Tryton has no party with the code "${supplier.code}" (${supplier.name}): create it there, or let the flow deliver suppliers, and replay.`,
    );
  steps.push(`Make the party ${supplier.code} "${supplier.name}", with its code and name only.`);
}

const createdRows = z.array(z.object({ id, addresses: ids }));

/**
 * Creates, in one call, those suppliers of the tasks that Tryton does not have. If Tryton refuses one, its tasks fail,
 * unless a user has created the party in the meantime: then that party is the supplier.
 */
export async function createMissingSuppliers(
  tryton: Tryton,
  tasks: readonly (Pick<Progress, 'error'> & { readonly supplier: Supplier })[],
  signal: AbortSignal,
): Promise<void> {
  const waiting = tasks.filter(({ supplier, error }) => supplier.id === undefined && error === undefined);
  const missing = [...new Set(waiting.map(({ supplier }) => supplier))].map(
    (supplier): Pick<Progress, 'error'> & { supplier: Supplier } => ({ supplier, error: undefined }),
  );
  await sendTasks(
    missing,
    async (batch) => {
      const values = batch.map(({ supplier }) => ({
        code: supplier.code,
        name: supplier.name,
        // Tryton confirms no purchase from a party without an address.
        addresses: [['create', [{}]]],
      }));
      const created = await tryton.change('party.party.create', [values], ids, signal);
      const rows = await tryton.ask('party.party.read', [created, ['addresses']], createdRows, signal);
      return created.map((party) => {
        const row = rows.find((candidate) => candidate.id === party);
        // The next attempt finds the party by its code.
        if (!row)
          throw new TransientError(`Tryton does not return the party with the id ${party}, which it has just created.`);
        return row;
      });
    },
    {
      signal,
      done: ({ supplier }, row) => {
        supplier.id = row.id;
        supplier.address = row.addresses[0];
      },
    },
  );
  const refused = missing.filter(({ error }) => error instanceof DataError);
  if (refused.length > 0 && !signal.aborted) await findRefused(tryton, refused, signal);
  for (const task of waiting) task.error = missing.find(({ supplier }) => supplier === task.supplier)?.error;
}

/**
 * Looks for the refused suppliers again. The reason may be that the code exists by now: a user has created the party,
 * or a call that failed only after its commit has.
 */
async function findRefused(
  tryton: Tryton,
  refused: readonly (Pick<Progress, 'error'> & { readonly supplier: Supplier })[],
  signal: AbortSignal,
): Promise<void> {
  try {
    const heads = refused.map(({ supplier: { code, name } }) => ({ id: code, name }));
    const found = await findSuppliers(tryton, heads, signal);
    for (const missing of refused) {
      const supplier = found.get(missing.supplier.code);
      if (supplier?.id === undefined) continue;
      Object.assign(missing.supplier, supplier);
      missing.error = undefined;
    }
  } catch (error) {
    for (const missing of refused) missing.error = asConnectorError(error);
  }
}
