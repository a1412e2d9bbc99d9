-- The requisition and its line that a lot was made of. Run by the connector, or by hand as 001_documents.sql.

alter table award_line
  add column requisition_intake text,
  add column requisition text,
  add column requisition_line text;
comment on column award_line.requisition_intake is 'The intake of the bridge that has read the requisition';
comment on column award_line.requisition is 'The ERP''s number of the requisition that the lot was made of';
comment on column award_line.requisition_line is 'The ERP''s number of its line; null where it is not known which it is';

insert into migration (part, number, name) values ('tables', 3, '003_requisitions.sql');
