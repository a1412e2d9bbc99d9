-- Files; their bytes are in the file storage.

create table service.files (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  file_name text not null,
  content_type text not null,
  size bigint not null,
  sha256 bytea not null,
  created timestamptz not null
);
create index on service.files (organisation_id);

-- Uploads whose file is not in `files` yet. The row is written before the bytes, and removed by the insert of the file.
-- A row that stays was left by a crash, and the sweep removes its bytes from the storage.
create table service.file_uploads (
  id uuid primary key,
  created timestamptz not null,
  -- The sweep has taken it: it can no longer become a file.
  abandoned boolean not null default false
);
create index on service.file_uploads (created);
