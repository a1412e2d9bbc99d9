/** `openapi`: the service's OpenAPI document, for generators and linters; the one that a running service gives at `/openapi.json`. */
import { type ApiName, createApiDocuments } from '#service/openapi/api-documents.ts';

export async function runOpenApi({ api }: { api: ApiName }): Promise<number> {
  console.log(JSON.stringify(createApiDocuments()[api], null, 2));
  return 0;
}
