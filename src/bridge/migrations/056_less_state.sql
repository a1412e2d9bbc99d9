-- breaking: a process of the version before reads what is dropped here
-- A comparison is begun by a person, and shows its findings: nothing is signed, resumed or compared by schedule.
alter table bridge.reconciliations
  drop column totals,
  drop column last_error,
  drop column failed;

-- The doctor asks a service about its webhooks.
drop table bridge.webhook_looks;

-- A replay of dead letters makes all of them due at once.
drop table bridge.replay_documents;
drop table bridge.replays;
