-- Organisations, their API keys, their counted requests and the kept answers of idempotent requests. Every row of this
-- schema belongs to one organisation, and every statement names it. Money and quantities are decimal text or numeric,
-- never binary floats; times are UTC with microseconds.

create table service.organisations (
  id uuid primary key,
  name text not null,
  webhook_domains text[] not null default '{}',
  allowed_networks text[] not null default '{}',
  -- `{"enabled": false}` or `{<limit name>: {burst, sustained}}`, and `webhooks_max`, `file_bytes_max`. A limit that is left out is the contract's.
  limits jsonb not null default '{}',
  -- What its files use, with the room that is reserved for uploads under way.
  file_bytes bigint not null default 0,
  created timestamptz not null
);

create table service.api_keys (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  scopes text[] not null,
  key_hash bytea not null unique,
  created timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  -- The person who uses the key; the same person has the same id in every key of the organisation.
  user_id uuid,
  user_name text,
  user_email text,
  -- Written at most once a minute by each process.
  last_used timestamptz,
  last_used_address text
);
create index on service.api_keys (organisation_id);

-- The first answer to a POST with an Idempotency-Key, kept for 24 hours.
create table service.idempotency_keys (
  organisation_id uuid not null references service.organisations,
  endpoint text not null,
  key text not null,
  body_hash bytea not null,
  status int,
  body text,
  headers jsonb,
  created timestamptz not null,
  primary key (organisation_id, endpoint, key)
);
create index on service.idempotency_keys (created);

-- One row for each request that has passed, for as long as the longest window. The requests of one key to one bucket
-- are numbered without gaps, so the numbers of two rows show how many requests lie between them. No foreign key: keys
-- are never deleted.
create table service.counted_requests (
  api_key_id uuid not null,
  bucket text not null,
  at timestamptz not null,
  number bigint not null,
  primary key (api_key_id, bucket, at, number)
);
create index counted_requests_at on service.counted_requests (at);

-- Counts one request against quotas (`quotas[i]` in any `seconds[i]`, sliding), unless one of them is used up. `used`
-- does not include this request. `free_ms` is the time until the oldest counted request leaves its window. `wait_ms` is
-- the time until this request would pass; null: it was counted. Requests of one key and bucket are counted one after
-- the other, in all processes, so that no two get the same number. The count does not wait for the disk: a crash of the
-- database server may lose it, a crash of the service does not.
create function service.count_request(
  in the_key uuid, in the_bucket text, in asked timestamptz, in quotas int[], in seconds int[],
  out used bigint[], out free_ms bigint[], out wait_ms bigint
) language plpgsql as $$
declare
  newest service.counted_requests;
  oldest service.counted_requests;
  window_length interval;
  leaves timestamptz;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform pg_advisory_xact_lock(hashtextextended(the_bucket || ' ' || the_key, 0));
  select * into newest from service.counted_requests
    where api_key_id = the_key and bucket = the_bucket order by at desc, number desc limit 1;
  -- A clock that was ahead, and has been set back, counted requests in the future: they count from now.
  if newest.at > asked + interval '1 minute' then
    update service.counted_requests set at = asked where api_key_id = the_key and bucket = the_bucket and at > asked;
    newest.at := asked;
  end if;
  -- The clocks of two processes differ: a later count must not stand before an earlier one.
  asked := greatest(asked, newest.at);
  for i in 1 .. cardinality(quotas) loop
    window_length := make_interval(secs => seconds[i]);
    select * into oldest from service.counted_requests
      where api_key_id = the_key and bucket = the_bucket and at > asked - window_length
      order by at, number limit 1;
    used[i] := coalesce(newest.number - oldest.number + 1, 0);
    free_ms[i] := ceil(extract(epoch from coalesce(oldest.at, asked) + window_length - asked) * 1000);
    if used[i] >= quotas[i] then
      -- Not always the oldest request: after a quota was lowered, more requests than it allows may be counted.
      select at + window_length into leaves from service.counted_requests
        where api_key_id = the_key and bucket = the_bucket and at >= oldest.at
        order by at, number offset used[i] - quotas[i] limit 1;
      wait_ms := greatest(wait_ms, ceil(extract(epoch from leaves - asked) * 1000));
    end if;
  end loop;
  if wait_ms is null then
    insert into service.counted_requests (api_key_id, bucket, at, number)
      values (the_key, the_bucket, asked, coalesce(newest.number, 0) + 1);
  end if;
end $$;
