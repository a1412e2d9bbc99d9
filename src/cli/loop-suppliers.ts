/**
 * Suppliers in `demo --loop`: the ERP creates, renames, blocks and unblocks; meanwhile a user of the service renames the
 * same suppliers (the ERP is master: that is set back), adds contacts (the service's own: they stay), and makes suppliers
 * of their own.
 */
import { randomUUID } from 'node:crypto';
import type { SupplierChange } from '#contract/supplier.ts';
import { systemClock } from '#platform/clock.ts';
import type { Random } from '#service/simulator/random.ts';
import type { LoopErp, LoopRun } from './loop-run.ts';

interface Vendor {
  readonly name: string;
  readonly closed: boolean;
}

/** A run that finds another run's suppliers makes its own: the numbers begin with a text of the run. */
export function createLoopSuppliers(erp: LoopErp, { client, suppliers: count, signal }: LoopRun) {
  const run = randomUUID().slice(0, 6);
  const vendors = new Map<string, Vendor>();
  const contacts = new Map<string, Set<string>>();
  const own = new Map<string, string>();
  const done = { erp: 0, service: 0 };

  async function submit(change: SupplierChange): Promise<void> {
    done.service += 1;
    const { uuid } = await client.submitSupplierChange([change], randomUUID(), signal);
    while ((await client.readSupplierChange(uuid, signal)).current_state !== 'PROCESSED')
      await systemClock.sleep(50, signal);
  }

  async function editAtService(random: Random, round: number, number: string): Promise<void> {
    const key = `ERP-${number}`;
    const isThere = (await client.listSuppliers({ externalId: key, pageSize: 10 }, signal)).items.length > 0;
    if (!isThere) {
      own.set(`OWN-${run}-${round}`, `Only at the service ${round}`);
      return submit({ external_id: `OWN-${run}-${round}`, name: `Only at the service ${round}` });
    }
    if (random.next() < 0.5) return submit({ external_id: key, name: `Renamed by a user ${round}` });
    const email = `user-${round}@service.example`;
    contacts.set(key, new Set([...(contacts.get(key) ?? []), email]));
    return submit({ external_id: key, contacts: [{ name: 'A user', email }] });
  }

  return {
    /** One edit in the ERP, and at most one at the service. */
    async edit(random: Random, round: number): Promise<void> {
      const number = `${run}-${random.whole(1, count)}`;
      const vendor = vendors.get(number);
      const next = { name: `Vendor ${number} v${round}`, closed: vendor !== undefined && random.next() < 0.3 };
      vendors.set(number, next);
      erp.saveRecord('suppliers', { number, ...next });
      done.erp += 1;
      if (random.next() < 0.5) await editAtService(random, round, `${run}-${random.whole(1, count)}`);
      await systemClock.sleep(random.whole(0, 200), signal).catch(() => undefined);
    },
    /** What differs, in words. */
    async differences(): Promise<string[]> {
      const differences: string[] = [];
      for (const [number, { name, closed }] of vendors) {
        const key = `ERP-${number}`;
        const [held] = (await client.listSuppliers({ externalId: key, pageSize: 10 })).items;
        if (!held) {
          if (!closed) differences.push(`${key} is missing at the service`);
          continue;
        }
        if (held['name'] !== name)
          differences.push(`${key}: "${String(held['name'])}" at the service, "${name}" in the ERP`);
        if (held['archived'] !== closed)
          differences.push(`${key}: archived is ${String(held['archived'])}, in the ERP ${closed}`);
        const emails = new Set((held['contacts'] as { email: string }[]).map(({ email }) => email));
        for (const email of contacts.get(key) ?? [])
          if (!emails.has(email)) differences.push(`${key}: the service's own contact ${email} is gone`);
      }
      for (const [key, name] of own) {
        const [held] = (await client.listSuppliers({ externalId: key, pageSize: 10 })).items;
        if (held?.['name'] !== name || held['archived'] !== false)
          differences.push(`${key} of the service was touched`);
      }
      return vendors.size === 0 ? ['nothing was compared'] : differences;
    },
    summary: (): string =>
      `suppliers: ${done.erp} edits in the ERP on ${vendors.size} suppliers, ${done.service} at the service`,
  };
}
