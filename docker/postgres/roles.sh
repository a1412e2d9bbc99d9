#!/bin/sh
# Runs once, when PostgreSQL makes its data: a role that owns the tables, and one for each program, which owns nothing.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set owner="$OWNER_DB_PASSWORD" --set service="$SERVICE_DB_PASSWORD" --set bridge="$BRIDGE_DB_PASSWORD" <<'SQL'
create role sourcing_owner login password :'owner';
create role sourcing_service login password :'service';
create role sourcing_bridge login password :'bridge';
alter database sourcing owner to sourcing_owner;
SQL
