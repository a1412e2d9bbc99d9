/** Makes and sets up a new organisation of a service, as an operator does: over `/admin`. */
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';

export interface NewOrganisation {
  readonly id: string;
  /** Calls `PUT /admin/organisations/{id}/{what}` with the body. */
  put(what: 'webhook-domains' | 'allowed-networks' | 'limits', body: object): Promise<void>;
  /** Issues a key and returns it; the service shows it only once. */
  issueKey(name: string, scopes: readonly string[]): Promise<string>;
}

/** `operator` is a client with the operator's token. Throws an AppError as its calls do. */
export async function createLocalOrganisation(operator: SourceClient, name: string): Promise<NewOrganisation> {
  const path = '/admin/organisations';
  const { id } = await operator.call({ method: 'POST', path, body: { name } }, z.looseObject({ id: z.string() }));
  return {
    id,
    async put(what, body) {
      await operator.call({ method: 'PUT', path: `${path}/${id}/${what}`, body }, z.unknown());
    },
    async issueKey(keyName, scopes) {
      const { key } = await operator.call(
        { method: 'POST', path: `${path}/${id}/api-keys`, body: { name: keyName, scopes } },
        z.looseObject({ key: z.string() }),
      );
      return key;
    },
  };
}
