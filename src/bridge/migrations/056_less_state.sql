-- breaking: a process of the version before reads what is dropped here
-- A comparison is begun by a person, and shows its findings: nothing is signed, resumed or compared by schedule.
alter table bridge.reconciliations
  drop column totals,
  drop column last_error,
  drop column failed;

-- The doctor asks a service about its webhooks.
drop table bridge.webhook_looks;
