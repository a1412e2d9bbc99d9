/**
 * A flow of suppliers into the ERP that the intake reads: what the service holds goes to the ERP, and comes back with the
 * next read. It notes what it does as the pusher does: an intent, the call, then what was delivered. A step is one of
 * these, so that the intake works between any two of them.
 */
import { hash } from 'node:crypto';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Random } from '../../simulation/random.ts';
import type { HeldSupplier, IntakeWorld } from './intake-world.ts';

interface Open {
  readonly key: string;
  readonly body: string;
  isWritten: boolean;
}

export async function createFlowBack(database: Database, world: IntakeWorld, random: Random) {
  await database.query(
    `delete from bridge.document_versions;
     insert into bridge.flows (name, source, kinds) values ('back', 'main', '{supplier}')`,
  );
  const delivered = new Map<string, string>();
  let open: Open | undefined;
  let writes = 0;

  /** Begins a call for a supplier of the pulled list that differs from what was delivered. */
  async function begin(): Promise<boolean> {
    const list = await database.query<{ id: string; body: string }>(
      `select id, body from bridge.resources where source = 'main' and kind = 'supplier-master' order by id`,
    );
    const forced = await database.query<{ key: string }>('select key from bridge.flow_documents where forced');
    const isForced = new Set(forced.map(({ key }) => key));
    const differing = list.filter(
      ({ id, body }) => world.erp.has(id) && (isForced.has(id) || delivered.get(id) !== documentOf(body)),
    );
    if (differing.length === 0) return false;
    const { id: key, body } = random.pick(differing);
    open = { key, body: documentOf(body), isWritten: false };
    await database.query(
      `insert into bridge.flow_documents (flow, kind, key, intent_id, intent_at) values ('back', 'supplier', $1, $2, $3)
       on conflict (flow, kind, key) do update set intent_id = excluded.intent_id, intent_at = excluded.intent_at`,
      [key, random.uuid(), timestampNow(world.clock)],
    );
    return true;
  }

  async function end({ key, body }: Open): Promise<void> {
    const now = timestampNow(world.clock);
    const contentHash = hash('sha256', body);
    await database.query(
      `insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
       values ('back', 'supplier', $1, $2, $3, '[]', $4) on conflict do nothing`,
      [key, contentHash, body, now],
    );
    await database.query(
      `update bridge.flow_documents
       set intent_id = null, delivered = $2, delivered_hash = $3, forced = false, due = null where key = $1`,
      [key, now, contentHash],
    );
    delivered.set(key, body);
    open = undefined;
  }

  /** The ERP takes what the service holds; the number of its revision is its own. */
  function write(call: Open) {
    const record = world.erp.get(call.key);
    if (!record) throw new Error(`The ERP has no ${call.key}.`);
    const { name, archived, attributes, contacts } = JSON.parse(call.body) as ReturnType<typeof viewOf>;
    const { Rev } = record.fields;
    const fields = Object.fromEntries(attributes.map((attribute) => [attribute.name, attribute.value]));
    world.saveErp({
      ...record,
      name,
      archived,
      contacts,
      fields: { ...fields, ...(Rev === undefined ? {} : { Rev }) },
    });
    writes += 1;
    call.isWritten = true;
  }

  async function step(): Promise<boolean> {
    if (!open) return begin();
    if (open.isWritten) await end(open);
    else write(open);
    return true;
  }

  return {
    step,
    /** Delivers what differs, to the end. */
    settle: async () => {
      while (await step());
    },
    get writes() {
      return writes;
    },
  };
}

/** The `supplier` document of an entry of the list, without the number of the ERP's revision. */
function documentOf(entry: string): string {
  return JSON.stringify(viewOf(JSON.parse(entry) as HeldSupplier));
}

function viewOf({ name, archived, fields, contacts }: HeldSupplier) {
  const { Rev: _own, ...rest } = fields;
  const attributes = Object.entries(rest).filter(([, value]) => value !== '');
  return {
    name,
    archived,
    attributes: attributes.map(([attribute, value]) => ({ name: attribute, value })),
    contacts,
  };
}
