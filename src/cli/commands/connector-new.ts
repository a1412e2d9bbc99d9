/** `connector new`: a connector's folder out of the template, with what to do next. */
import { relative } from 'node:path';
import { makeConnector, type NewConnector } from '../connector-template.ts';
import { type OutputOptions, print } from '../output.ts';

interface NewOptions extends OutputOptions {
  in?: string;
}

/** Throws AppError `invalid` for a name or a folder that will not do: then nothing is left behind. */
export async function runConnectorNew(options: NewOptions, name: string): Promise<number> {
  const made = await makeConnector(name, options.in);
  print(options, { name, folder: made.folder }, () => nextSteps(name, made));
  return 0;
}

function nextSteps(name: string, { folder, inRepository }: NewConnector): string {
  const place = inRepository ? relative('', folder) : folder;
  const test = inRepository ? `npx vitest run ${place}` : `cd ${place} && npm install && npm test`;
  return `Made ${place}: it runs as it is, and writes to an ERP in memory.

  1. Run its tests:      ${test}
  2. Open mapping.ts:    what becomes of each document. Then index.ts: its settings, and how it is sent.
  3. See its settings:   npm run -s cli -- connector show ${inRepository ? name : place}
  4. Use it in a flow:   connector: ${inRepository ? name : place}
                         settings: as in ${place}/settings.example.yaml

docs/writing-a-connector.md leads through it.`;
}
