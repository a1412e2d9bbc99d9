-- What a source sends otherwise than before is seen where it matters: a document that cannot be made of a record is a dead
-- letter with the field's name.
drop table bridge.source_forms;
drop table bridge.source_changes;
