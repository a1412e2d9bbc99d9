/** `config-schema`: the JSON Schema of the configuration, for editors: `config/bridge.schema.json`. */
import { configurationJsonSchema } from '#platform/configuration.ts';
import { configuration } from '../configuration.ts';

export async function runConfigSchema(): Promise<number> {
  console.log(JSON.stringify(configurationJsonSchema(configuration), null, 2));
  return 0;
}
