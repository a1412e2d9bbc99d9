/** A new organisation of a service, made and set up as its operator does: over `/admin`. */
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';

export interface NewOrganisation {
  readonly id: string;
  /** Sets something of the organisation, as `PUT /admin/organisations/{id}/{what}` takes it. */
  put(what: 'webhook-domains' | 'allowed-networks' | 'limits', body: object): Promise<void>;
  /** Gives the key, which the service shows once. */
  issueKey(name: string, scopes: readonly string[]): Promise<string>;
}

/** `operator` carries the operator's token. Throws AppError as its calls do. */
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
