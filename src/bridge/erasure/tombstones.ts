/**
 * Tombstones of erased persons: what a source or an ERP shows of them later is stored without their address. A tombstone
 * has a salted slow hash of the address, and of a fast hash two bytes: they tell which addresses are worth the slow one,
 * and no more. Example: `ann@example.com` was erased, and a source still shows her as a contact.
 *
 *     the page has 2,000 addresses     none is hashed while nobody was erased; else 2,000 fast hashes, 4 ms
 *     one has the two bytes of a row   it is hashed slowly, with that row's salt, 30 ms
 *     and it is hers                   the record is stored without the contact
 */
import { createHash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { addressesIn } from '#platform/person-data/addresses.ts';
import { createPerson, type Person } from '#platform/person-data/person.ts';
import { type Version, versionsOf } from '../mirror/read-version.ts';

/** Takes erased persons out of what is about to be stored. */
export interface Eraser {
  isIn(text: string): boolean;
  takeOutOfText(text: string): string;
  /** Returns the value of JSON without the persons; of a value that is nothing but a contact, one without its address. */
  takeOutOf<Value extends object>(value: Value): Value;
}

const hashBytes = 32;
const slowHash = promisify<string, Buffer, number, Buffer>(scrypt);

function prefixOf(address: string): Buffer {
  return createHash('sha256').update(address).digest().subarray(0, 2);
}

/** Whether any person was erased. The answer counts for a transaction under a lease or under the lock of a source. */
export async function isAnyErased(sql: Sql): Promise<boolean> {
  return (await sql.query(anyErased)).length > 0;
}

const anyErased = prepared('select from bridge.erased_persons limit 1');

/** Returns what takes the erased persons out of these texts, which nobody asks for while nobody was erased. */
export async function findErased(sql: Sql, texts: () => Iterable<string>): Promise<Eraser | undefined> {
  return (await isAnyErased(sql)) ? eraserFor(sql, texts()) : undefined;
}

/** The same for a caller that knows that somebody was erased. Undefined when none of the texts names an erased person. */
export async function eraserFor(sql: Sql, texts: Iterable<string>): Promise<Eraser | undefined> {
  const candidates = new Set<string>();
  for (const text of texts) for (const address of addressesIn(text)) candidates.add(address);
  const persons = await findPersons(sql, candidates);
  return persons.length === 0 ? undefined : eraserOf(persons);
}

async function findPersons(sql: Sql, candidates: ReadonlySet<string>): Promise<Person[]> {
  const byPrefix = Map.groupBy(candidates, (address) => prefixOf(address).toString('hex'));
  if (byPrefix.size === 0) return [];
  const rows = await sql.query<{ mark: string; prefix: Buffer; salt: Buffer; scrypt: Buffer }>(
    'select mark, prefix, salt, scrypt from bridge.erased_persons where prefix = any($1::bytea[])',
    [[...byPrefix.keys()].map((prefix) => Buffer.from(prefix, 'hex'))],
  );
  const persons: Person[] = [];
  for (const row of rows)
    for (const address of byPrefix.get(row.prefix.toString('hex')) ?? [])
      if (timingSafeEqual(await slowHash(address, row.salt, hashBytes), row.scrypt))
        persons.push(createPerson(address, row.mark));
  return persons;
}

function eraserOf(persons: readonly Person[]): Eraser {
  const takeOutOfText = (text: string) => persons.reduce((rest, person) => person.takeOutOfText(rest), text);
  return {
    isIn: (text) => persons.some((person) => person.isIn(text)),
    takeOutOfText,
    takeOutOf: (value) => {
      const rest = persons.reduce<unknown>(
        (given, person) => (given === undefined ? undefined : person.takeOutOfJson(given)),
        value,
      );
      return (rest ?? JSON.parse(takeOutOfText(JSON.stringify(value)))) as typeof value;
    },
  };
}

/** Returns the versions as they are stored: without the erased persons. */
export function versionsWithout(eraser: Eraser, versions: readonly Version[], feed: FeedName): Version[] {
  return versionsOf(
    versions.map(({ body, record }) => (eraser.isIn(body) ? eraser.takeOutOf(record) : record)),
    feed,
  );
}

/**
 * Lays the tombstone of the person, unless there is one, and returns the person with the mark that stands for it. When it
 * has returned, every transaction that stores anything under a lease or under the lock of a source knows it.
 */
export async function layTombstone(
  database: Database,
  { address, mark }: { address: string; mark: string },
  now: Timestamp,
): Promise<Person> {
  const given = createPerson(address, mark);
  const [known] = await findPersons(database, new Set([given.address]));
  if (known) return known;
  const salt = randomBytes(16);
  await database.query(
    'insert into bridge.erased_persons (mark, prefix, salt, scrypt, erased) values ($1, $2, $3, $4, $5)',
    [mark, prefixOf(given.address), salt, await slowHash(given.address, salt, hashBytes), now],
  );
  return given;
}

/** Returns once the transactions have ended that began before now and hold a lease. */
export async function waitForLeases(database: Database): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query('select from bridge.leases order by name for update');
  });
}

/** Takes a tombstone away: what names the person is stored again as it comes. Returns whether there was one. */
export async function liftTombstone(database: Database, address: string): Promise<boolean> {
  const [known] = await findPersons(database, new Set([createPerson(address, '').address]));
  if (!known) return false;
  const mark = /^erased-(.*)@/.exec(known.placeholder)?.[1];
  await database.transaction(async (tx) => {
    for (const table of ['erasure_deliveries', 'erasures', 'erased_persons'])
      await tx.query(`delete from bridge.${table} where mark = $1`, [mark]);
    // A pull may remember names with the address, which the erasure has taken out.
    await tx.query('delete from bridge.supplier_marks');
  });
  return true;
}
