-- Fewer writes for a delivery. A claim changes no column of an index, so it writes into none; the outcome writes into the
-- indexes of all deliveries only; and a delivery that is accepted is one row, not two.

drop index service.deliveries_coalesce, service.deliveries_due, service.deliveries_claimed, service.deliveries_waiting,
  service.deliveries_finished;

alter table service.deliveries
  -- The trigger of a pending notification that coalesces: a newer one replaces it. Null for all others.
  add column coalescing_trigger text generated always as (case when state = 'pending' and coalesces then trigger end) stored,
  -- The attempt that was accepted, while its row is `delivered`: its number is `attempts`. All other attempts, and those
  -- of earlier versions, are in `delivery_attempts`.
  add column accepted_at timestamptz,
  add column accepted_status int,
  add column accepted_duration_ms int,
  add column accepted_excerpt text;
-- A claim writes the row's new version beside the old one.
alter table service.deliveries set (fillfactor = 50);

create unique index deliveries_coalesce on service.deliveries (webhook_id, coalescing_trigger)
  where coalescing_trigger is not null;
-- Of these two, a row that is claimed stays where it is: it was due, and is due again when its claim runs out.
create index deliveries_due on service.deliveries (due) where finished is null;
-- For the deliverer's next claim of a webhook, in its order and without reading its finished deliveries.
create index deliveries_waiting on service.deliveries (webhook_id, due, created) where finished is null;
