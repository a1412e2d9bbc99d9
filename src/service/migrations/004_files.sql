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

-- Uploads whose file is not in `files` yet. The row is inserted before the bytes are stored, and deleted when the file
-- is inserted. A row that stays was left by a crash, and the sweep removes it with its bytes.
create table service.file_uploads (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  -- Bytes that are counted for the organisation while the upload is under way.
  reserved bigint not null,
  created timestamptz not null,
  -- The sweep has abandoned the upload: it can no longer become a file.
  abandoned boolean not null default false
);
create index on service.file_uploads (created);
