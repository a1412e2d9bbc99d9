/**
 * The file connector: a folder is the ERP's inbox, on this machine or on an SFTP server. In the layout `document` each
 * document has its own files, which are replaced (document-layout.ts). In the layout `batch` each write makes new
 * files, which the reader removes (batch-layout.ts).
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import {
  ConfigError,
  type ConnectorContext,
  defineConnector,
  documentKinds,
  readFrom,
} from 'sourcing-bridge/connector';
import type { ParsedKey } from 'ssh2';
import { createBatchLayout } from './batch-layout.ts';
import { createDocumentLayout, documentsAtOnce } from './document-layout.ts';
import { requisitionDrops, supplierDrops } from './dropped-records.ts';
import { type Folder, removeLeftovers } from './folder.ts';
import { loadSsh2 } from './load-ssh2.ts';
import { openLocalFolder } from './local-folder.ts';
import { createAcknowledge } from './news-files.ts';
import { checkRead, createReader, openNumbers } from './reads.ts';
import { type FileSettings, settingsSchema } from './settings.ts';
import { createSftpConnection, trustFingerprints, trustKnownHosts } from './sftp-connection.ts';
import { createSftpFolder } from './sftp-folder.ts';

export default defineConnector({
  name: 'file',
  settings: settingsSchema,
  capabilities: {
    kinds: documentKinds,
    batchMax: 50,
    requestsAtOnce: documentsAtOnce,
    timeoutMs: 60_000,
    lateEffectMs: 0,
    idempotency: 'external-id',
    reads: ['supplier', 'requisition'],
    acknowledges: true,
    listsOpen: true,
    readsBack: documentKinds,
  },
  capabilitiesWith: ({ layout, batch_size, sftp, read }) => ({
    reads: (['supplier', 'requisition'] as const).filter((stream) => read[stream] !== undefined),
    acknowledges: read.requisition?.acknowledge !== undefined,
    listsOpen: read.requisition?.content === 'whole',
    // The reader takes batches away: nothing is left to compare.
    ...(layout === 'batch' ? { batchMax: batch_size, idempotency: 'key', readsBack: [] } : {}),
    // A server may still carry out, for a moment, requests that it got before the connection was lost.
    ...(sftp ? { timeoutMs: 120_000, lateEffectMs: 5_000 } : {}),
  }),
  async open(settings, context) {
    const folder = await openFolder(settings, context);
    const documents = settings.layout === 'document' ? createDocumentLayout(folder, settings, context) : undefined;
    const layout = documents ?? createBatchLayout(folder, settings, context);
    const { read, csv, sftp } = settings;
    const { clock, log } = context;
    const readDeps = { folder, csv, clock, log, isLocal: !sftp };
    const supplier = read.supplier && supplierDrops(read.supplier);
    const requisition = read.requisition && requisitionDrops(read.requisition, csv);
    const acknowledge = read.requisition?.acknowledge;
    return {
      check: async () => [
        ...(await folder.check()),
        ...(supplier ? [await checkRead(readDeps, supplier)] : []),
        ...(requisition ? [await checkRead(readDeps, requisition)] : []),
      ],
      plan: (operations, signal) => folder.during(signal, () => layout.plan(operations)),
      write: (operations, signal) => folder.during(signal, () => layout.write(operations, signal)),
      lookup: (documents, signal) => folder.during(signal, () => layout.lookup(documents, signal)),
      ...(documents && {
        readBack: (deliveries, signal) => folder.during(signal, () => documents.readBack(deliveries)),
      }),
      read: readFrom({
        ...(supplier && { supplier: createReader(readDeps, supplier) }),
        ...(requisition && { requisition: createReader(readDeps, requisition) }),
      }),
      ...(requisition?.settings.content === 'whole' && {
        openRequisitions: (signal: AbortSignal) => openNumbers(readDeps, requisition, signal),
      }),
      ...(acknowledge && { acknowledge: createAcknowledge(folder, settings, acknowledge, context) }),
      close: () => folder.close(),
    };
  },
});

/** The names of temporary files of documents, which a kill leaves. */
const leftovers = new RegExp(`^\\.(?:(?:${documentKinds.join('|')})_.*|.*\\.(?:json|csv|bin))\\.[0-9a-f]{4,16}\\.tmp$`);

async function openFolder(settings: FileSettings, { dataDir }: ConnectorContext): Promise<Folder> {
  const { directory, sftp } = settings;
  const [file, made] = [modeOf(settings.file_mode), modeOf(settings.folder_mode)];
  if (!sftp) {
    const folder = await openLocalFolder(resolve(dataDir, directory), { file: file ?? 0o600, folder: made ?? 0o700 });
    await removeLeftovers(folder, '', leftovers, Date.now());
    return folder;
  }
  const { host, port, user, password, passphrase } = sftp;
  const privateKey =
    sftp.private_key_file === undefined
      ? undefined
      : await readKey(resolve(dataDir, sftp.private_key_file), passphrase?.reveal());
  const trust =
    sftp.known_hosts_file === undefined
      ? trustFingerprints(sftp.fingerprint ?? [])
      : await trustKnownHosts(resolve(dataDir, sftp.known_hosts_file), host, port);
  const connection = createSftpConnection({ host, port, user, password, privateKey, ...trust });
  const place = `sftp://${user}@${host}:${port}/${directory.replace(/^\//, '')}`;
  return createSftpFolder(connection, directory, place, { file, folder: made });
}

function modeOf(octal: string | undefined): number | undefined {
  return octal === undefined ? undefined : Number.parseInt(octal, 8);
}

/** Throws ConfigError when the file is not a private key, or the passphrase is wrong. */
async function readKey(file: string, passphrase: string | undefined): Promise<ParsedKey> {
  const refuse = (reason: string, cause?: unknown) =>
    new ConfigError(`The private key ${file} (settings.sftp.private_key_file) cannot be used: ${reason}`, { cause });
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw refuse(String(cause), cause);
  });
  const parsed = loadSsh2().utils.parseKey(text, passphrase);
  if (parsed instanceof Error) throw refuse(parsed.message, parsed);
  return parsed;
}
