/** `bridge document-schema`: the JSON Schema of the documents that connectors get. */
import { documentJsonSchema, documentKinds } from '#connector/documents.ts';
import { AppError } from '#platform/errors.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';

/** Of one kind, or of all by their names; always JSON. Needs no configuration. */
export async function runDocumentSchema(_options: BridgeCommandOptions, name: string | undefined): Promise<number> {
  const kind = documentKinds.find((one) => one === name);
  if (name !== undefined && kind === undefined)
    throw new AppError('invalid', `There is no kind "${name}"; the kinds are: ${documentKinds.join(', ')}.`);
  const schema =
    kind === undefined
      ? Object.fromEntries(documentKinds.map((one) => [one, documentJsonSchema(one)]))
      : documentJsonSchema(kind);
  console.log(JSON.stringify(schema, null, 2));
  return 0;
}
