/**
 * Parties, by code: the supplier's external id, else the sourcing service's id. The code is unique in Tryton, so one that
 * is made twice at the same time is refused the second time. A party that was made by hand with that code is the
 * supplier's.
 */
import { DataError, type SupplierHead, TransientError, z } from 'sourcing-bridge/connector';
import type { Tryton } from './rpc.ts';
import { asConnectorError, sendTasks } from './send-batch.ts';
import type { Settings } from './settings.ts';
import type { Progress } from './task.ts';
import { fieldNames, flag, id, ids, oneLine, stamp, text } from './values.ts';

const partyRows = z.array(
  z.object({
    id,
    code: z.string(),
    name: text,
    active: flag,
    replaced_by: id.nullable(),
    supplier_payment_term: id.nullish(),
    supplier_tax_rule: id.nullish(),
    _timestamp: stamp,
    'addresses.': z.array(
      z.object({
        id,
        active: flag,
        invoice: flag,
        street: text,
        postal_code: text,
        city: text,
        country: id.nullable(),
        _timestamp: stamp,
      }),
    ),
    'identifiers.': z.array(z.object({ id, type: text, code: text, _timestamp: stamp })),
    'contact_mechanisms.': z.array(
      z.object({ id, active: flag, type: z.string(), value: text, name: text, _timestamp: stamp }),
    ),
  }),
);

const partyFields = fieldNames('code name active replaced_by supplier_payment_term supplier_tax_rule _timestamp', {
  addresses: 'active invoice street postal_code city country _timestamp',
  identifiers: 'type code _timestamp',
  contact_mechanisms: 'active type value name _timestamp',
});

export type HeldParty = z.output<typeof partyRows>[number];

/** As they are, also those that are archived. */
export async function readParties(
  tryton: Tryton,
  domain: readonly unknown[],
  signal: AbortSignal,
): Promise<HeldParty[]> {
  const params = [domain, 0, null, [['id', 'ASC']], partyFields];
  return tryton.ask('party.party.search_read', params, partyRows, signal, { active_test: false });
}

/** Whom an order goes to. Its id is known once `makeMissingSuppliers` has made it. */
export interface Supplier {
  id: number | undefined;
  readonly code: string;
  readonly name: string;
  address: number | undefined;
  readonly paymentTerm: number | undefined;
  readonly hasTaxRule: boolean;
}

export function codeOf({ external_id, id }: { external_id?: string | undefined; id?: string | undefined }): string {
  return external_id ?? id ?? '';
}

/** Those who are named by these documents; a party that was merged into another stands for that one. */
export async function findSuppliers(
  tryton: Tryton,
  heads: readonly SupplierHead[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Supplier>> {
  const names = new Map(heads.map((head) => [codeOf(head), oneLine(head.name)]));
  if (names.size === 0) return new Map();
  const rows = await readParties(tryton, [['code', 'in', [...names.keys()]]], signal);
  const merged = rows.flatMap(({ replaced_by }) => (replaced_by === null ? [] : [replaced_by]));
  const others = merged.length === 0 ? [] : await readParties(tryton, [['id', 'in', merged]], signal);
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

/** Why a document of a supplier that Tryton does not have is refused, if it is; adds the step when it will be made. */
export function checkMissing(supplier: Supplier, settings: Settings, steps: string[]): void {
  if (supplier.id !== undefined) return;
  if (settings.missing_supplier === 'reject')
    throw new DataError(
      `Tryton has no party with the code "${supplier.code}" (${supplier.name}): make it there, or let the flow deliver suppliers, and replay.`,
    );
  steps.push(`Make the party ${supplier.code} "${supplier.name}", with its code and name only.`);
}

const madeRows = z.array(z.object({ id, addresses: ids }));

/**
 * Makes, in one call, the suppliers of these that Tryton does not have. Tasks whose supplier it refuses fail; one that
 * somebody else has made meanwhile is the supplier.
 */
export async function makeMissingSuppliers(
  tryton: Tryton,
  tasks: readonly (Pick<Progress, 'error'> & { readonly supplier: Supplier })[],
  signal: AbortSignal,
): Promise<void> {
  const needing = tasks.filter(({ supplier, error }) => supplier.id === undefined && error === undefined);
  const missing = [...new Set(needing.map(({ supplier }) => supplier))].map(
    (supplier): Pick<Progress, 'error'> & { supplier: Supplier } => ({ supplier, error: undefined }),
  );
  await sendTasks(
    missing,
    async (some) => {
      const values = some.map(({ supplier }) => ({
        code: supplier.code,
        name: supplier.name,
        // Without one no purchase could be confirmed.
        addresses: [['create', [{}]]],
      }));
      const created = await tryton.change('party.party.create', [values], ids, signal);
      const rows = await tryton.ask('party.party.read', [created, ['addresses']], madeRows, signal);
      return created.map((one) => {
        const row = rows.find((each) => each.id === one);
        // It is found by its code the next time.
        if (!row)
          throw new TransientError(`Tryton does not show the party with the id ${one}, which it has just made.`);
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
  if (refused.length > 0 && !signal.aborted) await findAfterAll(tryton, refused, signal);
  for (const task of needing) task.error = missing.find(({ supplier }) => supplier === task.supplier)?.error;
}

/** Perhaps refused because the code is there meanwhile: made by somebody else, or by a call that failed afterwards. */
async function findAfterAll(
  tryton: Tryton,
  refused: readonly (Pick<Progress, 'error'> & { readonly supplier: Supplier })[],
  signal: AbortSignal,
): Promise<void> {
  try {
    const heads = refused.map(({ supplier: { code, name } }) => ({ id: code, name }));
    const found = await findSuppliers(tryton, heads, signal);
    for (const one of refused) {
      const supplier = found.get(one.supplier.code);
      if (supplier?.id === undefined) continue;
      Object.assign(one.supplier, supplier);
      one.error = undefined;
    }
  } catch (error) {
    for (const one of refused) one.error = asConnectorError(error);
  }
}
