/** Logins at the console that fail again and again: somebody guesses, or a program has an old password. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** For an account, a browser or an address, beyond what is free of waiting. */
const failuresMany = 10;
const rememberedHours = 1;

/** Returns for which accounts and addresses logins fail now, ten at most: `account anna`, `address 192.0.2.7`. */
export async function readFailingLogins(sql: Sql, now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ bucket: string }>(
    `select regexp_replace(bucket, '^browser \\S+ ', 'account ') as bucket from bridge.console_login_failures
     where last > $1::timestamptz - interval '${rememberedHours} hour'
       and failures >= case when bucket like 'address %' then 3 * ${failuresMany} else ${failuresMany} end
     group by 1 order by 1 limit 10`,
    [now],
  );
  return rows.map(({ bucket }) => bucket.replace(/^account #\d+$/, 'names that no account has'));
}
