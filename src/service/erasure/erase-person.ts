/**
 * Erases a person from the service: the contact at each supplier, the user of keys, the contact of events, and the address
 * wherever a text names it. Records of feeds that named the person are appended again without it, so that readers learn of
 * it. Every step leaves the tables right, so an erasure that was killed goes on when it is run again; it ends when a
 * search of all tables finds nothing more, also of what was written meanwhile.
 */
import type { FeedName } from '#contract/feed.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Person } from '#platform/person-data/person.ts';
import { findRowsOf, findTextTables, takeOutOfRow } from '#platform/person-data/stored-text.ts';
import { makeSourcingEventRecord } from '../domain/feed-records.ts';
import { loadEvent } from '../events/event-store.ts';
import { reappendRecords } from '../feeds/reappend-records.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

/** How many rows were changed, by table. */
export type ErasedRows = ReadonlyMap<string, number>;

/** Tables that have a step of their own. */
const ownSteps = new Set([
  'service.actions',
  'service.api_keys',
  'service.feed_records',
  'service.idempotency_keys',
  'service.supplier_contacts',
]);

/** What is written while one pass runs is found by the next. */
const passesMax = 10;

/**
 * Returns what was changed. `onSearched` is called after each table of a pass, with how many rows were changed so far.
 * Throws `unavailable` when something goes on writing the address, and as the database does when a constraint forbids a
 * change.
 */
export async function erasePerson(
  { database, clock }: { database: Database; clock: Clock },
  person: Person,
  onSearched: (tables: number, of: number, rows: number) => void = () => undefined,
): Promise<ErasedRows> {
  const erased = new Map<string, number>();
  const count = (table: string, rows: number) => {
    if (rows === 0) return;
    erased.set(table, (erased.get(table) ?? 0) + rows);
  };
  const changed = () => [...erased.values()].reduce((sum, each) => sum + each, 0);
  const tables = (await findTextTables(database, 'service')).filter(({ table }) => !ownSteps.has(table));
  for (let pass = 1; pass <= passesMax; pass += 1) {
    const before = changed();
    // Answers that would be repeated: without them a repeated request is done again.
    count('service.idempotency_keys', await deleteKeptAnswers(database, person));
    // Submissions and jobs that wait come before the contacts, which they would bring back.
    for (const [index, table] of tables.entries()) {
      for await (const row of findRowsOf(database, table, person))
        count(table.table, (await takeOutOfRow(database, row, person)) ? 1 : 0);
      onSearched(index + 1, tables.length, changed());
    }
    count('service.supplier_contacts', await deleteContacts(database, clock, person));
    count('service.api_keys', await forgetUsers(database, person));
    // After all that they are made of.
    for (const event of await eventsShowing(database, person))
      count('service.feed_records', await eraseFromFeeds(database, clock, event, person));
    count('service.actions', await eraseFromActions(database, person));
    if (changed() === before) return erased;
  }
  throw new AppError(
    'unavailable',
    'Something goes on writing this address into the service, such as an intake that sends it: stop that, and run the ' +
      'command again.',
  );
}

async function deleteKeptAnswers(sql: Sql, person: Person): Promise<number> {
  const rows = await sql.query(
    'delete from service.idempotency_keys where body ~* $1 or headers::text ~* $1 or key ~* $1 or endpoint ~* $1 returning 1',
    [person.pattern],
  );
  return rows.length;
}

/** As a supplier change deletes contacts: under the lock of the supplier list, with a new `modified` of the suppliers. */
async function deleteContacts(database: Database, clock: Clock, person: Person): Promise<number> {
  const organisations = await database.query<{ id: string }>(
    `select distinct s.organisation_id as id from service.supplier_contacts c join service.suppliers s on s.id = c.supplier_id
     where c.email_key = $1 or c.name ~* $2`,
    [person.address, person.pattern],
  );
  let count = 0;
  for (const { id } of organisations)
    count += await database.transaction(async (tx) => {
      const [head] = await tx.query<{ last: Timestamp | null }>(
        `select last_modified as last from service.feed_heads where organisation_id = $1 and feed = 'suppliers' for update`,
        [id],
      );
      const deleted = await tx.query<{ supplier: string }>(
        `delete from service.supplier_contacts c using service.suppliers s
         where s.id = c.supplier_id and s.organisation_id = $1 and (c.email_key = $2 or c.name ~* $3)
         returning c.supplier_id as supplier`,
        [id, person.address, person.pattern],
      );
      const now = timestampNow(clock);
      const modified = laterOf(now, head?.last ? addMicros(head.last, 1) : undefined) ?? now;
      await tx.query('update service.suppliers set modified = $2 where id = any($1)', [
        deleted.map(({ supplier }) => supplier),
        modified,
      ]);
      await tx.query(
        `update service.feed_heads set last_modified = $2, changes = changes + $3
         where organisation_id = $1 and feed = 'suppliers'`,
        [id, modified, deleted.length],
      );
      return deleted.length;
    });
  return count;
}

/** The keys go on working: whoever holds them, they stand for no user any more. */
async function forgetUsers(sql: Sql, person: Person): Promise<number> {
  const rows = await sql.query(
    `update service.api_keys set user_id = null, user_name = null, user_email = null,
       name = case when name ~* $2 then 'erased' else name end
     where lower(user_email) = $1 or user_name ~* $2 or name ~* $2 returning 1`,
    [person.address, person.pattern],
  );
  return rows.length;
}

interface ShownEvent {
  readonly id: string;
  readonly organisationId: string;
}

async function eventsShowing(sql: Sql, person: Person): Promise<ShownEvent[]> {
  return sql.query<ShownEvent>(
    `select distinct sourcing_event as id, organisation_id as "organisationId" from service.feed_records
     where body ~* $1 or summary ~* $1 or tags::text ~* $1`,
    [person.pattern],
  );
}

/** Under the lock of the event, so that no newer record is replaced by an older one. */
function eraseFromFeeds(database: Database, clock: Clock, shown: ShownEvent, person: Person): Promise<number> {
  return database.transaction(async (tx) => {
    const unit: UnitOfWork = { tx, wake: () => undefined };
    const event = await loadEvent(tx, shown.organisationId, shown.id, 'lock');
    const { created_by: creator } = makeSourcingEventRecord(event).content;
    // A person who created the event is its key from now on, as for a key without a user.
    const withoutCreator = (feed: FeedName, content: object) => {
      if (feed !== 'sourcing-events' || !('created_by' in content)) return content;
      if (!person.isIn(JSON.stringify(content.created_by))) return content;
      const roles = 'roles' in content ? { roles: [{ role_type: 'ADMIN', user: [creator] }] } : {};
      return { ...content, ...roles, created_by: creator };
    };
    return reappendRecords(unit, {
      event,
      now: timestampNow(clock),
      isChanged: (text) => person.isIn(text),
      change: (feed, content) => person.takeOutOfJson(withoutCreator(feed, content)) as object,
      changeTags: (tag) => person.takeOutOfText(tag),
    });
  });
}

async function eraseFromActions(sql: Sql, person: Person): Promise<number> {
  const [row] = await sql.query<{ entries: number }>('select service.erase_in_actions($1, $2)::int as entries', [
    person.address,
    person.placeholder,
  ]);
  return row?.entries ?? 0;
}
