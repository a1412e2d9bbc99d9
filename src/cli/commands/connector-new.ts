/** `connector new`: makes a connector's folder from the template, and says what to do next. */

import { join, relative } from 'node:path';
import { commandLine, packageDir, runsFromRepository } from '#platform/own-package.ts';
import { makeConnector, type NewConnector } from '../connector-template.ts';
import { type OutputOptions, print } from '../output.ts';

interface NewOptions extends OutputOptions {
  in?: string;
}

/** Throws an AppError `invalid` for a name or a folder that is not possible; then it leaves nothing behind. */
export async function runConnectorNew(options: NewOptions, name: string): Promise<number> {
  const made = await makeConnector(name, options.in);
  print(options, { name, folder: made.folder }, () => nextSteps(name, made));
  return 0;
}

function nextSteps(name: string, { folder, inRepository, needsInstall }: NewConnector): string {
  const place = inRepository ? relative('', folder) : folder;
  const test = inRepository
    ? `npx vitest run ${place}`
    : `cd ${place} && ${needsInstall ? 'npm install && ' : ''}npm test`;
  return `Made ${place}: it runs unchanged, and writes to an ERP in memory.

  1. Run its tests:      ${test}
  2. Edit mapping.ts:    what each document becomes in the ERP. Then index.ts: the settings, and how documents are sent.
  3. See its settings:   ${commandLine} connector show ${inRepository ? name : place}
  4. Start its ERP:      ${runsFromRepository ? 'npx node' : 'node'} ${place}/memory-erp.ts
  5. See documents in it, from another terminal:
     ERP_CLIENT_SECRET=secret ${commandLine} start --demo --config ${place}/settings.example.yaml

${relative('', join(packageDir, 'docs/writing-a-connector.md'))} leads through it.`;
}
