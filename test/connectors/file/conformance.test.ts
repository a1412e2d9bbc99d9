/** The conformance of the file connector against the file system, with an ERP that imports files. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { conformance } from 'sourcing-bridge/connector/testing';
import { afterAll, describe, test } from 'vitest';
import { batchTarget, documentTarget, dropFiles, droppedFiles } from './conformance-target.ts';

// In memory where the system has a file system for that: thousands of files are flushed.
const dataDir = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'file-connector-'));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));
const inbox = (directory: string) => () => join(dataDir, directory);

const targets = [
  documentTarget(inbox('documents'), {
    against: 'file system, a file for each document',
    settings: () => ({ directory: 'documents', read: droppedFiles('csv') }),
    ...dropFiles(inbox('documents'), 'csv'),
  }),
  documentTarget(inbox('objects'), {
    against: 'file system, requisitions in JSON Lines',
    kinds: ['supplier', 'file'],
    settings: () => ({
      directory: 'objects',
      format: 'jsonl',
      read: droppedFiles('jsonl', 'delta'),
    }),
    ...dropFiles(inbox('objects'), 'jsonl', 'delta'),
    notApplicable: { 'poisoned record': 'suppliers and files are written as JSON, which can hold every document' },
  }),
  batchTarget(inbox('batches'), {
    against: 'file system, batches in CSV',
    // An ERP, unlike a spreadsheet, wants each text as it is.
    settings: () => ({
      directory: 'batches',
      layout: 'batch',
      csv: { formulas: 'keep' },
      read: droppedFiles('csv'),
    }),
    ...dropFiles(inbox('batches'), 'csv'),
  }),
  batchTarget(inbox('lines'), {
    against: 'file system, batches in JSON Lines',
    kinds: ['award'],
    settings: () => ({
      directory: 'lines',
      layout: 'batch',
      format: 'jsonl',
      read: droppedFiles('jsonl'),
    }),
    ...dropFiles(inbox('lines'), 'jsonl'),
    notApplicable: { 'poisoned record': 'JSON Lines can hold every document' },
  }),
];

for (const target of targets)
  describe(target.against, () => {
    for (const { title, run } of conformance({ ...target, dataDir: () => dataDir })) test(title, run);
  });
