/** The conformance of the file connector against a real OpenSSH server, whose folder the ERP reads. */
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { conformance } from 'sourcing-bridge/connector/testing';
import { beforeAll, describe, test } from 'vitest';
import { type SshServer, startSshd, whyNoSshd } from '../../harness/sshd.ts';
import { batchTarget, documentTarget, dropFiles, droppedFiles } from './conformance-target.ts';

const missing = await whyNoSshd();
/** Opening a session takes 0.1 s, so few faults are tried. SFTP_FAULT_POINTS=32 tries all of them, in both layouts. */
const { SFTP_FAULT_POINTS: wantedPoints } = process.env;
const faultPoints = Number(wantedPoints ?? 3);

describe.skipIf(missing !== undefined)(`over SFTP${missing === undefined ? '' : ` (skipped: ${missing})`}`, () => {
  let server: SshServer;
  const inbox = (name: string) => () => join(server.folder, name);
  beforeAll(async () => {
    server = await startSshd();
    for (const folder of ['documents', 'batches']) {
      await mkdir(inbox(folder)());
      await chmod(inbox(folder)(), 0o777);
    }
  });

  const over = {
    proxy: { protocol: 'tcp', address: () => `127.0.0.1:${server.port}` },
    idle: async () => undefined,
    notApplicable: { 'expired login': 'the login lasts as long as its connection' },
    faultPoints,
  } as const;
  const sftp = (address: string) => {
    const { hostname, port } = new URL(address.includes('://') ? address : `tcp://${address}`);
    const { user, keyFile, passphrase, fingerprint } = server;
    return { host: hostname, port: Number(port), user, private_key_file: keyFile, passphrase, fingerprint };
  };
  const targets = [
    documentTarget(inbox('documents'), {
      ...over,
      against: 'OpenSSH (SFTP), a file for each document',
      kinds: ['award'],
      settings: (address) => ({
        directory: inbox('documents')(),
        format: 'jsonl',
        sftp: sftp(address),
        read: droppedFiles('jsonl'),
      }),
      ...dropFiles(inbox('documents'), 'jsonl'),
    }),
    batchTarget(inbox('batches'), {
      ...over,
      against: 'OpenSSH (SFTP), batches in CSV',
      kinds: ['award'],
      settings: (address) => ({
        directory: inbox('batches')(),
        layout: 'batch',
        sftp: sftp(address),
        csv: { formulas: 'keep' },
        read: droppedFiles('csv'),
      }),
      ...dropFiles(inbox('batches'), 'csv'),
    }),
  ];
  for (const target of wantedPoints === undefined ? targets.slice(-1) : targets)
    describe(target.against, () => {
      for (const { title, run } of conformance(target)) test(title, run);
    });
});
