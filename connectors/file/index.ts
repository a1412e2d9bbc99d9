/**
 * The file connector: a folder is the ERP's inbox, on this machine or on an SFTP server. In the layout `document` each
 * document has its own files, which are replaced (document-layout.ts). In the layout `batch` each write makes new
 * files, which the reader removes (batch-layout.ts).
 */
import { resolve } from 'node:path';
import { type ConnectorContext, defineConnector, documentKinds, readFrom } from 'sourcing-bridge/connector';
import { createBatchLayout } from './batch-layout.ts';
import { createDocumentLayout, documentsAtOnce } from './document-layout.ts';
import { requisitionDrops, supplierDrops } from './dropped-records.ts';
import { deadlineOf, type Folder, removeLeftovers } from './folder.ts';
import { openLocalFolder } from './local-folder.ts';
import { bytesFolder } from './names.ts';
import { createAcknowledge } from './news-files.ts';
import { checkRead, createReader, openNumbers } from './reads.ts';
import { type FileSettings, settingsSchema } from './settings.ts';
import { createSftpFolder } from './sftp-folder.ts';
import { sftpLogin } from './sftp-login.ts';

const timeoutMs = { local: 60_000, sftp: 120_000 };

export default defineConnector({
  name: 'file',
  settings: settingsSchema,
  capabilities: {
    kinds: documentKinds,
    batchMax: 50,
    requestsAtOnce: documentsAtOnce,
    timeoutMs: timeoutMs.local,
    lateEffectMs: 0,
    idempotency: 'external-id',
    reads: ['supplier', 'requisition'],
    acknowledges: true,
    listsOpen: true,
    readsBack: documentKinds,
  },
  capabilitiesWith: ({ layout, sftp, read }) => ({
    reads: (['supplier', 'requisition'] as const).filter((stream) => read[stream] !== undefined),
    acknowledges: read.requisition?.acknowledge === true,
    listsOpen: read.requisition?.content === 'whole',
    // The reader takes batches away: nothing is left to compare.
    ...(layout === 'batch' ? { idempotency: 'key', readsBack: [] } : {}),
    // A server may still carry out, for a moment, requests that it got before the connection was lost.
    ...(sftp ? { timeoutMs: timeoutMs.sftp, lateEffectMs: 5_000 } : {}),
  }),
  async open(settings, context) {
    const folder = await openFolder(settings, context);
    const documents = settings.layout === 'document' ? createDocumentLayout(folder, settings) : undefined;
    const layout = documents ?? createBatchLayout(folder, settings, context);
    const { read, csv, sftp } = settings;
    const { clock, log } = context;
    const readDeps = { folder, csv, clock, log, isLocal: !sftp };
    const supplier = read.supplier && supplierDrops(read.supplier);
    const requisition = read.requisition && requisitionDrops(read.requisition, csv);
    const acknowledge = read.requisition?.acknowledge ? createAcknowledge(folder, settings, context) : undefined;
    const deadline = (signal: AbortSignal) => deadlineOf(clock, timeoutMs[sftp ? 'sftp' : 'local'], signal);
    return {
      check: async () => [
        ...(await folder.check()),
        ...(supplier ? [await checkRead(readDeps, supplier)] : []),
        ...(requisition ? [await checkRead(readDeps, requisition)] : []),
      ],
      write: (operations, signal) => folder.during(signal, () => layout.write(operations, signal, deadline(signal))),
      lookup: (given, signal) => folder.during(signal, () => layout.lookup(given, signal)),
      ...(documents && {
        readBack: (deliveries, signal) => folder.during(signal, () => documents.readBack(deliveries, signal)),
      }),
      read: readFrom({
        ...(supplier && { supplier: createReader(readDeps, supplier) }),
        ...(requisition && { requisition: createReader(readDeps, requisition) }),
      }),
      ...(requisition?.settings.content === 'whole' && {
        openRequisitions: (signal: AbortSignal) => openNumbers(readDeps, requisition, signal),
      }),
      ...(acknowledge && {
        acknowledge: (given, signal) => folder.during(signal, () => acknowledge(given, signal, deadline(signal))),
      }),
      close: () => folder.close(),
    };
  },
});

/** The names of temporary files of documents, which a kill leaves. */
const leftovers = new RegExp(`^\\.(?:${documentKinds.join('|')})_.*\\.tmp$`);

async function openFolder(settings: FileSettings, { dataDir, clock }: ConnectorContext): Promise<Folder> {
  const { directory, sftp } = settings;
  if (sftp) {
    const place = `sftp://${sftp.user}@${sftp.host}:${sftp.port}/${directory.replace(/^\//, '')}`;
    return createSftpFolder(await sftpLogin(sftp, dataDir), directory, place);
  }
  const local = await openLocalFolder(resolve(dataDir, directory));
  await removeLeftovers(local, '', leftovers, clock.nowMs());
  await removeLeftovers(local, bytesFolder, /^\..*\.tmp$/, clock.nowMs());
  return local;
}
