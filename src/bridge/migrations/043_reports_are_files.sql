-- A report is made of the rows of its comparison when it is wanted; its signing key is derived from the master key.
drop table bridge.reports;
drop table bridge.report_keys;

-- A comparison that is begun anew takes the place of the one that was interrupted.
delete from bridge.reconciliations where given_up is not null;
alter table bridge.reconciliations drop column given_up;
