import { allowedNetworksRequest, webhookDomainsRequest } from '#contract/admin.ts';
import type { Issue } from '#contract/issue.ts';
import { AppError, throwIssues } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import { canonicalDomain, parseCidrs } from '#platform/network-guard.ts';
import type { Operator } from '../caller.ts';
import { findOrganisation } from './find-organisation.ts';

/**
 * PUT /admin/organisations/{id}/webhook-domains: the domains that the organisation's webhooks may name. A webhook is
 * checked against them when it is created, and again at each delivery.
 */
export const putWebhookDomains = endpoint<Operator, typeof webhookDomainsRequest>({
  method: 'PUT',
  path: '/admin/organisations/:id/webhook-domains',
  scope: 'operator',
  summary: 'Set the domains that webhooks may name',
  answers: { 200: webhookDomainsRequest },
  body: webhookDomainsRequest,
  handle: async ({ body, params, caller: { unit } }) => {
    const organisation = await findOrganisation(unit.tx, params['id']);
    const issues: Issue[] = [];
    const domains = body.domains.map((domain, index) => {
      const canonical = canonicalDomain(domain);
      if (canonical === undefined)
        issues.push({ path: `domains[${index}]`, message: 'must be a host name, *.a-domain, or an IP address' });
      return canonical;
    });
    throwIssues(issues, ({ path, message }) => `The body is not valid: ${path} ${message}.`);
    await unit.tx.query('update service.organisations set webhook_domains = $2 where id = $1', [organisation, domains]);
    return { status: 200, body: { domains } };
  },
});

/**
 * PUT /admin/organisations/{id}/allowed-networks: the private networks that webhooks, token URLs and file URLs may
 * reach, beside the public internet.
 */
export const putAllowedNetworks = endpoint<Operator, typeof allowedNetworksRequest>({
  method: 'PUT',
  path: '/admin/organisations/:id/allowed-networks',
  scope: 'operator',
  summary: 'Set the private networks that may be reached',
  answers: { 200: allowedNetworksRequest },
  body: allowedNetworksRequest,
  handle: async ({ body, params, caller: { unit } }) => {
    const organisation = await findOrganisation(unit.tx, params['id']);
    checkCidrs(body.cidrs);
    await unit.tx.query('update service.organisations set allowed_networks = $2 where id = $1', [
      organisation,
      body.cidrs,
    ]);
    return { status: 200, body: { cidrs: body.cidrs } };
  },
});

/** Throws `invalid` with the path of each wrong entry in the body. */
function checkCidrs(cidrs: readonly string[]): void {
  try {
    parseCidrs(cidrs);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const issues = error.issues.map(({ path, message }) => ({ path: `cidrs${path}`, message }));
    throw new AppError(error.code, error.publicMessage, { issues });
  }
}
