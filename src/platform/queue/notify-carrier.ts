/**
 * Wake-ups over the database, by LISTEN and NOTIFY: every process that works the lane gets each key. One connection
 * LISTENs; when it is lost, it is made again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { Sql } from '#platform/database/sql.ts';
import { within } from '../within.ts';
import { answerTimeoutMs, type Carrier, type ReportError } from './carrier.ts';

const reconnectMs = 1_000;
/** PostgreSQL takes a payload of fewer than 8,000 bytes. */
const payloadBytesMax = 7_999;

/** Connects when the first lane is received. */
export function createNotifyCarrier(options: {
  database: Sql;
  databaseUrl: string;
  /** The channel. */
  namespace: string;
  applicationName: string;
  reportError: ReportError;
}): Carrier {
  const { database, namespace: channel, reportError } = options;
  const lanes = new Map<string, (key: string) => void>();
  const closing = new AbortController();
  let listening: Promise<void> | undefined;
  let client: Client | undefined;

  function hear(payload = ''): void {
    const [lane = '', ...key] = payload.split(' ');
    lanes.get(lane)?.(key.join(' '));
  }

  /** Listens until the connection is lost. */
  async function listenOnce(): Promise<void> {
    const own = new Client({
      connectionString: options.databaseUrl,
      application_name: options.applicationName,
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
    });
    client = own;
    const lost = Promise.withResolvers<unknown>();
    own.on('error', lost.resolve);
    own.on('end', () => lost.resolve(undefined));
    own.on('notification', ({ payload }) => hear(payload));
    try {
      await own.connect();
      await own.query(`listen ${own.escapeIdentifier(channel)}`);
      const error = await lost.promise;
      if (error !== undefined) throw error;
    } finally {
      await own.end().catch(() => undefined);
    }
  }

  async function keepListening(): Promise<void> {
    while (!closing.signal.aborted) {
      await listenOnce().catch((error: unknown) => {
        if (!closing.signal.aborted) reportError(error);
      });
      await sleep(reconnectMs, undefined, { signal: closing.signal }).catch(() => undefined);
    }
  }

  return {
    async send(lane, keys) {
      const payloads = keys.map((key) => `${lane} ${key}`).filter((text) => Buffer.byteLength(text) <= payloadBytesMax);
      const sent = database.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads]);
      await within(answerTimeoutMs, sent).catch(reportError);
    },
    receive(lane, wake) {
      lanes.set(lane, wake);
      listening ??= keepListening();
    },
    async close() {
      closing.abort();
      await within(answerTimeoutMs, Promise.all([client?.end(), listening])).catch(reportError);
    },
  };
}
