/**
 * A base backup of the embedded server while it runs, as PostgreSQL documents it ("Making a Base Backup Using the Low
 * Level API"): the package brings no pg_basebackup. The copy holds torn pages; the server that is started over it repairs
 * them with the WAL of the time of the copy, and refuses to start if any of that WAL is missing. So the copy stands for
 * one instant, the end of the backup, whatever was written meanwhile.
 *
 * Example:
 *
 *     slot      a temporary one keeps the server from removing WAL; it goes with the session
 *     start     0/2000028: from here on each page is written whole to the WAL
 *     copy      all files but those that the next start makes anew; pg_control last
 *     stop      0/4000100, and the text of `backup_label`, which says where the repair begins
 *     WAL       the segments from that of 0/2000028 to that of 0/4000100
 *
 * A process that dies here leaves a folder that nothing uses; the session ends, and with it the backup and the slot.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { AppError } from '#platform/errors.ts';
import type { FolderCopy } from '../copied-files.ts';

/** Folders whose contents the next start makes anew. */
const emptied = new Set([
  'pg_wal',
  'pg_replslot',
  'pg_dynshmem',
  'pg_notify',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
]);
/** What belongs to the running server. */
const leftOut = /^(postmaster\.(pid|opts)|pg_internal\.init.*|pgsql_tmp.*|backup_label.*|tablespace_map.*)$/;
/**
 * What a server obeys: a backup has none of it, and a restore takes none. Whoever wrote `restore_command` and a signal into
 * it would run commands.
 */
const obeyed = /\.(conf|signal)$|^current_logfiles$/;
/** All that is taken back from a backup, below `postgres`. */
const taken = /^(PG_VERSION|backup_label|(base|global|pg_[a-z_]+)\/.+)$/;
const control = join('global', 'pg_control');

/**
 * Copies the server's data directory into `copy`, below `postgres`. `url` is that of its superuser. Rejects with what the
 * database or the file system says; throws `invalid` for tablespaces, which lie elsewhere.
 */
export async function backUpServer(directory: string, url: string, copy: FolderCopy): Promise<void> {
  const client = new Client({ connectionString: url, application_name: 'backup' });
  // Without a listener a session that breaks would end the process; the statement that follows rejects anyway.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query("select pg_create_physical_replication_slot('backup_' || pg_backend_pid(), true, true)");
    const begun = await client.query<{ segment: string }>(
      "select pg_walfile_name(pg_backup_start('sourcing-bridge', true)) as segment",
    );
    await copyTree(directory, '', copy);
    await copy.file(join(directory, control), join('postgres', control));
    const ended = await client.query<{ segment: string; label: string }>(
      'select pg_walfile_name(lsn) as segment, labelfile as label from pg_backup_stop(true)',
    );
    const [first, last] = [begun.rows[0]?.segment, ended.rows[0]?.segment];
    if (first === undefined || last === undefined) throw new AppError('internal', 'The backup did not begin or end.');
    const segments = (await readdir(join(directory, 'pg_wal'))).filter(
      (name) => /^[0-9A-F]{24}$/.test(name) && name >= first && name <= last,
    );
    for (const name of segments) await copy.file(join(directory, 'pg_wal', name), join('postgres', 'pg_wal', name));
    await copy.text(ended.rows[0]?.label ?? '', join('postgres', 'backup_label'));
  } finally {
    await client.end();
  }
}

/** Whether a file below `postgres` is one that a backup has. */
export function isServerFile(path: string): boolean {
  return taken.test(path);
}

/** Gives a restored server its configuration: that of any other, since all that counts is on its command line. */
export async function writeConfiguration(copy: FolderCopy): Promise<void> {
  const hosts = ['127.0.0.1/32', '::1/128'].map((host) => `host all all ${host} scram-sha-256\n`).join('');
  const files = { 'postgresql.conf': '', 'postgresql.auto.conf': '', 'pg_hba.conf': hosts, 'pg_ident.conf': '' };
  for (const [name, text] of Object.entries(files)) await copy.text(text, join('postgres', name));
}

async function copyTree(directory: string, below: string, copy: FolderCopy): Promise<void> {
  await copy.folder(join('postgres', below));
  for (const name of await readdir(join(directory, below))) {
    const path = join(below, name);
    if (leftOut.test(name) || (below === '' && obeyed.test(name)) || path === control) continue;
    const found = await lstat(join(directory, path)).catch(() => undefined);
    // Dropped since the folder was listed: the WAL says so, too.
    if (!found) continue;
    if (found.isSymbolicLink())
      throw new AppError('invalid', `${join(directory, path)} leads elsewhere; a backup copies no tablespaces.`);
    if (!found.isDirectory()) await copy.file(join(directory, path), join('postgres', path), { mayVanish: true });
    else if (below === '' && emptied.has(name)) await copy.folder(join('postgres', path));
    else await copyTree(directory, path, copy);
  }
}
