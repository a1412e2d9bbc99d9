/** `connector new`: makes a connector's folder from the template, and says what to do next. */
import { relative } from 'node:path';
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

function nextSteps(name: string, { folder, inRepository }: NewConnector): string {
  const place = inRepository ? relative('', folder) : folder;
  const test = inRepository ? `npx vitest run ${place}` : `cd ${place} && npm install && npm test`;
  return `Made ${place}: it runs unchanged, and writes to an ERP in memory.

  1. Run its tests:      ${test}
  2. Edit mapping.ts:    what each document becomes in the ERP. Then index.ts: the settings, and how documents are sent.
  3. See its settings:   npm run -s cli -- connector show ${inRepository ? name : place}
  4. Use it in a flow:   connector: ${inRepository ? name : place}
                         settings: as in ${place}/settings.example.yaml

docs/writing-a-connector.md leads through it.`;
}
