import type { Writable } from 'node:stream';
import type { PoolClient } from 'pg';

/** The socket of a connection, which the driver's types hide. Undefined in a simulation. */
export function socketOf(client: PoolClient): Writable | undefined {
  return (client as PoolClient & { readonly connection?: { readonly stream: Writable } }).connection?.stream;
}
