-- Submissions of intakes: what may not have arrived is sent again under its key, what is refused as a whole is divided.

drop table bridge.intake_attributes;

alter table bridge.intakes drop column pack_max;
update bridge.intakes set paused_kind = null, paused_reason = null, paused_at = null where paused_kind = 'attributes';

alter table bridge.intake_submissions drop column canary;
