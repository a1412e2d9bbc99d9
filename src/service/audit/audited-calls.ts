/**
 * The calls that stand in the audit log: all that change something at `/admin`, at the desk and on webhooks. What the
 * other calls change (submissions, jobs) is kept as rows of their own, with their author and their time.
 */
import { limitsRequest } from '#contract/limits.ts';

export interface AuditedCall {
  /** Object and verb: `event.publish`. */
  readonly what: string;
  /** The kind of the object. Its id is the parameter of the path that is named here, else that of the answer. */
  readonly object: string;
  readonly parameter?: string;
  /** The members of the body that are recorded. None of them is a secret, names a person or is a price. */
  readonly shown?: readonly string[];
}

/** By method and path, as in `api.ts`. */
export const auditedCalls: Readonly<Record<string, AuditedCall>> = {
  'POST /admin/organisations': { what: 'organisation.create', object: 'organisation', shown: ['name'] },
  'POST /admin/organisations/:id/api-keys': {
    what: 'api-key.create',
    object: 'api-key',
    shown: ['name', 'scopes', 'expires_at'],
  },
  'DELETE /admin/organisations/:id/api-keys/:keyId': {
    what: 'api-key.revoke',
    object: 'api-key',
    parameter: 'keyId',
  },
  'PUT /admin/organisations/:id/webhook-domains': ofOrganisation('organisation.webhook-domains', ['domains']),
  'PUT /admin/organisations/:id/allowed-networks': ofOrganisation('organisation.allowed-networks', ['cidrs']),
  'POST /admin/organisations/:id/supplier-attributes': ofOrganisation('organisation.supplier-attribute', ['name']),
  'PUT /admin/organisations/:id/limits': ofOrganisation('organisation.limits', Object.keys(limitsRequest.shape)),
  'POST /admin/deliveries/:id/resend': { what: 'delivery.resend', object: 'delivery', parameter: 'id' },

  'POST /api/webhooks': { what: 'webhook.create', object: 'webhook', shown: ['name', 'triggers'] },
  'PATCH /api/webhooks/:uuid': ofWebhook('webhook.update', ['name', 'triggers', 'is_active']),
  'DELETE /api/webhooks/:uuid': ofWebhook('webhook.delete'),
  'POST /api/webhooks/:uuid/test': ofWebhook('webhook.test'),
  'POST /api/webhooks/:uuid/deliveries/:id/resend': {
    what: 'delivery.resend',
    object: 'delivery',
    parameter: 'id',
  },

  'POST /desk/files': { what: 'file.upload', object: 'file' },
  'POST /desk/events/:id/publish': ofEvent('event.publish'),
  'POST /desk/events/:id/unpublish': ofEvent('event.unpublish'),
  'POST /desk/events/:id/pause': ofEvent('event.pause'),
  'POST /desk/events/:id/resume': ofEvent('event.resume'),
  'POST /desk/events/:id/close': ofEvent('event.close'),
  'POST /desk/events/:id/reopen': ofEvent('event.reopen'),
  'POST /desk/events/:id/delete': ofEvent('event.delete'),
  'POST /desk/events/:id/rounds': ofEvent('round.add', ['starts', 'ends']),
  'POST /desk/events/:id/rounds/:number/close': ofEvent('round.close'),
  'POST /desk/events/:id/rounds/:number/extend': ofEvent('round.extend', ['ends']),
  'POST /desk/events/:id/rounds/:number/reopen': ofEvent('round.reopen', ['ends']),
  'POST /desk/events/:id/invitations': ofEvent('supplier.invite', ['suppliers']),
  'POST /desk/events/:id/bids': ofEvent('bid.submit', ['supplier']),
  'POST /desk/events/:id/bids/withdraw': ofEvent('bid.withdraw', ['supplier', 'lots']),
  'PATCH /desk/events/:id/bids': ofEvent('bid.edit', ['supplier']),
  'PUT /desk/events/:id/buyer-values': ofEvent('event.buyer-values'),
  'PUT /desk/events/:id/scenarios/:name': ofEvent('scenario.save'),
  'POST /desk/events/:id/award': ofEvent('scenario.choose', ['scenario']),
  'PUT /desk/events/:id/questions': ofEvent('event.questions'),
  'POST /desk/events/:id/answers': ofEvent('answer.submit', ['supplier']),
  'DELETE /desk/events/:id/answers/:supplier/:question/files/:file': ofEvent('answer.remove-file'),
};

function ofEvent(what: string, shown: readonly string[] = []): AuditedCall {
  return { what, object: 'event', parameter: 'id', shown };
}

function ofOrganisation(what: string, shown: readonly string[]): AuditedCall {
  return { what, object: 'organisation', parameter: 'id', shown };
}

function ofWebhook(what: string, shown: readonly string[] = []): AuditedCall {
  return { what, object: 'webhook', parameter: 'uuid', shown };
}
