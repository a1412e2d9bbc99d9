/**
 * `openapi`: the service's OpenAPI document for generators and linters, as a running service has it at `/openapi.json`.
 */
import { createApiDocuments } from '#service/openapi/api-documents.ts';
import type { ApiName } from '#service/openapi/api-names.ts';

export async function runOpenApi({ api }: { api: ApiName }): Promise<number> {
  console.log(JSON.stringify(createApiDocuments()[api], null, 2));
  return 0;
}
