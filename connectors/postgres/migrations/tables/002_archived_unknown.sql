-- Whether a supplier is archived is known from the list of suppliers only; of one that a feed has named it is unknown.
-- Run by the connector, or by hand as 001_documents.sql.

alter table supplier alter column archived drop not null;
comment on column supplier.archived is 'Known from the list of suppliers only';

insert into migration (part, number, name) values ('tables', 2, '002_archived_unknown.sql');
