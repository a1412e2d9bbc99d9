-- A row for all bytes in the file storage, from before they are stored until they are removed.

-- `upload`: the bytes are being stored, or belong to no file yet. `file`: their upload has ended, and they are shown.
-- `abandoned`: they are removed, and become no file any more. An upload that a crash has left is abandoned after a day.
alter table service.files
  add column state text not null default 'file' check (state in ('upload', 'file', 'abandoned')),
  alter column file_name drop not null,
  alter column content_type drop not null,
  alter column sha256 drop not null,
  add check (state <> 'file' or (file_name is not null and content_type is not null and sha256 is not null));
alter table service.files alter column state drop default;
-- `size`: of an upload, what is reserved for it; 0 once that was freed.
insert into service.files (id, organisation_id, size, created, state)
  select id, organisation_id, reserved, created, case when abandoned then 'abandoned' else 'upload' end
  from service.file_uploads;
drop table service.file_uploads;
create index files_without_end on service.files (created) where state <> 'file';
