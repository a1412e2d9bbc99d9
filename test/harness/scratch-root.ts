/**
 * Where the tests' PostgreSQL servers keep their files: in memory when there is space, else on the disk. A database is
 * some 350 files, and the tests make and drop hundreds of databases. On a disk that is slow: for each new file ext4
 * looks at every inode that was freed in the last minutes, which was a third of all the work of the database tests.
 */
import { statfs } from 'node:fs/promises';
import { freemem } from 'node:os';

const memory = '/dev/shm';
/** Ten times the largest size of all servers of a run. */
const memoryBytesMin = 2 * 1024 ** 3;

/** The parent for a server's folder: `memory` when 2 GB of it are free, else `disk`. */
export async function findScratchRoot(disk: string): Promise<string> {
  const found = await statfs(memory).catch(() => undefined);
  return found !== undefined && Math.min(found.bavail * found.bsize, freemem()) > memoryBytesMin ? memory : disk;
}
