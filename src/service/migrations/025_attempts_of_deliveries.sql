-- All attempts of a notification stand in its row, whose outcome they decide.

-- `[{number, time, status, duration_ms, error, operator_error, response_excerpt}]`, without nulls, in the order they were settled.
-- `operator_error` is what only the operator may learn: whether a host is unknown or refused, and at which address.
alter table service.deliveries add column attempt_log jsonb not null default '[]';
update service.deliveries d set attempt_log = a.attempts
  from (
    select delivery_id, jsonb_agg(jsonb_strip_nulls(jsonb_build_object('number', number,
        'time', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'status', status,
        'duration_ms', duration_ms, 'error', error, 'operator_error', operator_error, 'response_excerpt', response_excerpt))
      order by number) as attempts
    from (
      select delivery_id, number, at, status, duration_ms, error, operator_error, response_excerpt
      from service.delivery_attempts
      union all
      select id, attempts, accepted_at, accepted_status, accepted_duration_ms, null, null, accepted_excerpt
      from service.deliveries where accepted_at is not null) as each
    group by delivery_id) as a
  where a.delivery_id = d.id;
drop table service.delivery_attempts;
alter table service.deliveries drop column accepted_at, drop column accepted_status, drop column accepted_duration_ms,
  drop column accepted_excerpt;
