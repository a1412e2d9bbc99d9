-- What the whole API needs beside 001: files, sourcing requests, RFI, Dutch offers, timers, filters, OAuth, limits.

-- `{"enabled": false}` or `{<limit name>: {burst, sustained}}`; what is left out is as the contract says.
alter table service.organisations add column limits jsonb not null default '{}';

create table service.files (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  file_name text not null,
  content_type text not null,
  size bigint not null,
  sha256 bytea not null,
  created timestamptz not null
);
create index on service.files (organisation_id);

-- Bytes that are being stored, or were, and whose file is not in `files` yet. Written before the bytes and removed with
-- the insert of the file: what stays is what a crash left, and the sweep removes it from the storage.
create table service.file_uploads (
  id uuid primary key,
  created timestamptz not null,
  -- The sweep has taken it: it can become a file no more.
  abandoned boolean not null default false
);
create index on service.file_uploads (created);

create table service.sourcing_requests (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  description text not null,
  reference_id text,
  requested_by text,
  needed_by timestamptz,
  category text,
  tags jsonb not null,
  items jsonb not null,
  created_by uuid not null,
  created timestamptz not null
);
create index on service.sourcing_requests (organisation_id, created);

create table service.request_files (
  request_id uuid not null references service.sourcing_requests,
  file_id uuid not null references service.files,
  position int generated always as identity,
  primary key (request_id, file_id)
);

create table service.event_files (
  event_id uuid not null references service.sourcing_events,
  file_id uuid not null references service.files,
  position int generated always as identity,
  primary key (event_id, file_id)
);

create table service.event_requests (
  event_id uuid not null references service.sourcing_events,
  request_id uuid not null references service.sourcing_requests,
  position int not null,
  primary key (event_id, request_id)
);
create index on service.event_requests (request_id);

-- `bids_behind`: a change that touches no feed by itself (the buyer's values, say) has altered what the records of bids
-- that stand would say: the next point of the latest bids feed looks at all of them, not only at those of its bid.
-- `answers_behind`: the same of the RFI responses.
alter table service.sourcing_events
  add column is_template boolean not null default false,
  add column bids_behind boolean not null default false,
  add column answers_behind boolean not null default false,
  add column close_after_last_round boolean not null default false;

alter table service.lots add column sourcing_request uuid references service.sourcing_requests;

-- Taking lots out of a draft looks for what refers to each of them.
create index on service.bids (lot_id);
create index on service.scenario_awards (lot_id);

-- A round that is open for the second time: bids may be withdrawn in it.
alter table service.rounds add column reopened boolean not null default false;

-- What the timers look for.
create index rounds_starting on service.rounds (starts) where status = 'PENDING';
create index rounds_ending on service.rounds (ends) where status = 'ACTIVE';

-- `offers` stands beside `values`: the asks of a Dutch auction. A withdrawn bid has neither values nor cost, and its
-- record says so for as long as the bid is not made again.
alter table service.bids
  add column offers jsonb,
  add column withdrawn boolean not null default false;

-- `definition`: the question in the contract's members, without ids. Its `modified` is what `include=questions` shows.
-- Clients may choose the ids: one organisation's are not in the way of another's.
create table service.questions (
  organisation_id uuid not null references service.organisations,
  event_id uuid not null references service.sourcing_events,
  id uuid not null,
  position int not null,
  parent_id uuid,
  definition jsonb not null,
  modified timestamptz not null,
  primary key (event_id, id),
  unique (organisation_id, id)
);

-- One for each supplier and answered question; the id is the record's in the feed, and stays when the answer changes.
create table service.rfi_responses (
  id bigint generated always as identity primary key,
  event_id uuid not null,
  supplier_id uuid not null references service.suppliers,
  question_id uuid not null,
  value text,
  -- With the gating as it was when the supplier answered: editing the question changes no response.
  selected_options jsonb,
  comment text,
  currency text,
  document_file_ids uuid[] not null default '{}',
  modified timestamptz not null,
  unique (event_id, supplier_id, question_id),
  foreign key (event_id, question_id) references service.questions
);
-- Taking questions out of the list looks for the answers to each of them.
create index on service.rfi_responses (event_id, question_id);

-- Where absolute links of a job's result point: the address under which the job was submitted.
alter table service.jobs
  add column base_url text,
  add column detail jsonb;
-- The list of jobs is counted and filtered within it.
create index jobs_newest on service.jobs (organisation_id, created, number) include (type, status);

create index suppliers_modified on service.suppliers (organisation_id, modified);
create index submissions_newest on service.supplier_submissions (organisation_id, number);

-- What filters compare: the tags of an event stand with its record in the events feed, each as the JSON text
-- `["name","value"]`; `requests` of an event are all of its own, a record of another feed has its one. `summary` is what
-- `include=sourcing_events` shows of an event.
alter table service.feed_records
  add column tags text[],
  add column requests uuid[],
  add column summary text;
update service.feed_records
  set tags = array(select '[' || (tag -> 'name')::text || ',' || (tag -> 'value')::text || ']'
                   from jsonb_array_elements(body::jsonb -> 'tags') as tag),
      summary = json_build_object(
        'id', body::json -> 'id', 'name', body::json -> 'name', 'type', body::json -> 'type',
        'status', body::json -> 'status', 'primary_currency', body::json -> 'primary_currency',
        'secondary_currencies', body::json -> 'secondary_currencies', 'tags', body::json -> 'tags')
  where feed = 'sourcing-events';

-- In the order of the feed wherever a filter is one value: a page is read off the index, whatever stands before it. What
-- is hidden is in none of them.
drop index service.feed_records_by_event;
create index feed_records_by_event on service.feed_records (organisation_id, feed, sourcing_event, modified)
  where visible;
create index feed_records_by_status on service.feed_records (organisation_id, status, modified)
  where visible and feed = 'sourcing-events';
create index feed_records_by_request on service.feed_records (organisation_id, feed, (requests[1]), modified)
  where visible and feed <> 'sourcing-events' and requests[1] is not null;
create index feed_records_by_requests on service.feed_records using gin (requests)
  where visible and feed = 'sourcing-events';
create index feed_records_by_tags on service.feed_records using gin (tags)
  where visible and feed = 'sourcing-events';

insert into service.feed_heads (organisation_id, feed) select id, 'rfi-responses' from service.organisations;

-- Sealed: the OAuth parameters, as JSON. They are never shown again.
alter table service.webhooks add column authentication bytea;

create index deliveries_of_organisation on service.deliveries (organisation_id, created);

-- What a webhook's worker takes next, without reading through all that it has delivered.
create index deliveries_waiting on service.deliveries (webhook_id, due) where state in ('pending', 'sending');

-- One row for each request that was let through, for as long as the longest window: a key's requests to one bucket are
-- numbered without gaps, so two of them tell how many lie between. No foreign key: keys are never deleted.
create table service.counted_requests (
  api_key_id uuid not null,
  bucket text not null,
  at timestamptz not null,
  number bigint not null,
  primary key (api_key_id, bucket, at, number)
);
create index counted_requests_at on service.counted_requests (at);

-- Counts one request against quotas (`quotas[i]` in any `seconds[i]`, sliding), unless one is used up. `used` is without
-- this request; `free_ms` is when the oldest counted one leaves its window, `wait_ms` (null: it was counted) when this
-- one would pass. The requests of one key and bucket wait for each other, in every process, so that no two take the same
-- place. A count may be lost with the server, not with the service: it does not wait for the disk.
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
  -- A clock that was wrong and was set right: what it counted, in a time that is yet to come, counts from now.
  if newest.at > asked + interval '1 minute' then
    update service.counted_requests set at = asked where api_key_id = the_key and bucket = the_bucket and at > asked;
    newest.at := asked;
  end if;
  -- The clocks of two processes differ; what is counted later must not stand before.
  asked := greatest(asked, newest.at);
  for i in 1 .. cardinality(quotas) loop
    window_length := make_interval(secs => seconds[i]);
    select * into oldest from service.counted_requests
      where api_key_id = the_key and bucket = the_bucket and at > asked - window_length
      order by at, number limit 1;
    used[i] := coalesce(newest.number - oldest.number + 1, 0);
    free_ms[i] := ceil(extract(epoch from coalesce(oldest.at, asked) + window_length - asked) * 1000);
    if used[i] >= quotas[i] then
      -- Not always the oldest: a quota that was lowered may be used several times over.
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
