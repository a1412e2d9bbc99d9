/** `connector new`: makes a connector's folder from the template, and says what to do next. */

import { join, relative } from 'node:path';
import { commandLine, packageDir } from '#platform/own-package.ts';
import { makeConnector, type NewConnector, readKinds } from '../connector-template.ts';
import { type OutputOptions, print } from '../output.ts';

interface NewOptions extends OutputOptions {
  in?: string;
  from?: string;
  kinds?: string;
}

/** Throws an AppError `invalid` for a name or a folder that is not possible; then it leaves nothing behind. */
export async function runConnectorNew(options: NewOptions, name: string): Promise<number> {
  const kinds = options.kinds === undefined ? undefined : readKinds(options.kinds);
  const made = await makeConnector(name, options.in, { from: options.from, kinds });
  print(options, { name, folder: made.folder }, () =>
    options.from === undefined ? nextSteps(name, made) : copiedSteps(name, made, options.from),
  );
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
  4. Start its ERP:      ${inRepository ? 'npx node' : 'node'} ${place}/memory-erp.ts
  5. See documents in it, from another terminal:
     ERP_CLIENT_SECRET=secret ${commandLine} start --demo --config ${place}/settings.example.yaml

${relative('', join(packageDir, 'docs/writing-a-connector.md'))} leads through it.`;
}

function copiedSteps(name: string, { folder, inRepository }: NewConnector, original: string): string {
  const place = inRepository ? relative('', folder) : folder;
  return `Made ${place}, a copy of ${original}. What ${original} needs to be tested stays in test/connectors/${original}.

  1. Read README.md:     which file does what, and what is written where. Then change it.
  2. See its settings:   ${commandLine} connector show ${inRepository ? name : place}
  3. Use it in a flow:   connector: ${inRepository ? name : place}
  4. Try it:             ${commandLine} connector verify ${inRepository ? name : place} --test-system`;
}
