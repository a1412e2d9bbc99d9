#!/bin/sh
# Runs once, when PostgreSQL makes its data: a role that owns the tables, and one for each program, which owns nothing.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set database="$POSTGRES_DB" \
  --set owner="$OWNER_DB_PASSWORD" --set service="$SERVICE_DB_PASSWORD" --set bridge="$BRIDGE_DB_PASSWORD" <<'SQL'
create role sourcing_owner login password :'owner';
create role sourcing_service login password :'service';
create role sourcing_bridge login password :'bridge';
alter database :"database" owner to sourcing_owner;
revoke all on database :"database" from public;
grant connect on database :"database" to sourcing_service, sourcing_bridge;
-- `bridge mapping try` makes a temporary table.
grant temporary on database :"database" to sourcing_bridge;
revoke all on schema public from public;
SQL
