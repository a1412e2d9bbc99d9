/** `bridge document-schema`: the JSON Schema of the documents that connectors get. */
import { documentJsonSchema, documentKinds } from '#connector/documents.ts';
import { AppError } from '#platform/errors.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';

/** Prints the schema of one kind, or the schemas of all by name; always JSON. Needs no configuration. */
export async function runDocumentSchema(_options: BridgeCommandOptions, name: string | undefined): Promise<number> {
  const kind = documentKinds.find((each) => each === name);
  if (name !== undefined && kind === undefined)
    throw new AppError('invalid', `There is no kind "${name}"; the kinds are: ${documentKinds.join(', ')}.`);
  const schema =
    kind === undefined
      ? Object.fromEntries(documentKinds.map((each) => [each, documentJsonSchema(each)]))
      : documentJsonSchema(kind);
  console.log(JSON.stringify(schema, null, 2));
  return 0;
}
