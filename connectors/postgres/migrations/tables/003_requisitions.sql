-- The requisition and its line that a lot was made of. Run by the connector, or by hand as 001_documents.sql.

alter table award_line
  add column requisition_intake text,
  add column requisition_reference_id text,
  add column requisition_line text;
comment on column award_line.requisition_intake is 'The intake that has read it from its ERP';
comment on column award_line.requisition_reference_id is 'The ERP''s number of the requisition';
comment on column award_line.requisition_line is 'The ERP''s number of the line; left out where it is not known which it is';

insert into migration (part, number, name) values ('tables', 3, '003_requisitions.sql');
