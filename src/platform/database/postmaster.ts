/**
 * Finds the process that serves a data directory. PostgreSQL writes its pid and port to `postmaster.pid` there. After a
 * crash the file stays, and another program may have the pid by then. So the pid counts only when the command line of
 * that process names the directory: the server is started with a `cluster_name` made of the directory's device and
 * inode.
 */
import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { hasErrorCode } from '../errors.ts';

export interface PidFile {
  /** Undefined when the file is empty or holds something else: a server is just starting, or the power was cut. */
  readonly pid: number | undefined;
  readonly port: number | undefined;
  readonly status: string | undefined;
  readonly modifiedMs: number;
}

/** Reads `postmaster.pid` of a data directory; undefined when there is no such file. */
export async function readPidFile(directory: string): Promise<PidFile | undefined> {
  const file = join(directory, 'postmaster.pid');
  try {
    const [text, { mtimeMs }] = [await readFile(file, 'utf8'), await stat(file)];
    const lines = text.split('\n').map((line) => line.trim());
    const status = lines[7];
    return {
      pid: positive(lines[0]),
      port: positive(lines[3]),
      status: status === '' ? undefined : status,
      modifiedMs: mtimeMs,
    };
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** The `cluster_name` of the server over this directory. No other directory of the machine has it, not even a copy. */
export async function clusterNameOf(directory: string): Promise<string> {
  const { dev, ino } = await stat(directory, { bigint: true });
  return `sourcing-bridge-${dev.toString(16)}-${ino.toString(16)}`;
}

/** Whether the process `pid` lives and is the main process of the server with this cluster name. */
export async function isPostmaster(pid: number, clusterName: string): Promise<boolean> {
  const commandLine = await commandLineOf(pid);
  // PostgreSQL's child processes show the name too, but in another form.
  return commandLine?.includes(`cluster_name=${clusterName}`) ?? false;
}

async function commandLineOf(pid: number): Promise<string | undefined> {
  try {
    // Unlike /proc/<pid>/cwd, this file needs no right to trace the process, which root lacks in a container.
    if (process.platform === 'linux') return await readFile(`/proc/${pid}/cmdline`, 'utf8');
    return (await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])).stdout;
  } catch {
    return undefined;
  }
}

function positive(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,9}$/.test(text) ? Number(text) : undefined;
}
