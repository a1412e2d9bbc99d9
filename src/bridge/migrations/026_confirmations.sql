-- After a restore a flow is held until the ERP was asked about each of its documents. The last one of which that is
-- known: its kind and key, both empty at the beginning; null while the flow's source is still being read, and where no
-- restore is open.
alter table bridge.flows add column confirmed_kind text;
alter table bridge.flows add column confirmed_key text;
-- Why the ERP could not be asked; it is asked again.
alter table bridge.flows add column confirm_error text;
