/** How the documents of each kind are sent. */
import type { DocumentKind } from 'sourcing-bridge/connector';
import type { KindSettings, RequestSettings, Settings } from './settings.ts';

const ownUrl = { path: '/{kind}/{key}', headers: {} };
const replace: RequestSettings = { ...ownUrl, method: 'PUT' };

/** With nothing set: a URL of its own, by its key. */
const defaultKind: KindSettings = {
  create: replace,
  amend: replace,
  cancel: { ...ownUrl, method: 'DELETE' },
  lookup: {
    ...ownUrl,
    method: 'GET',
    absent: [404, 410],
    where: {},
    ignore_others: false,
    content_hash: { body: 'content_hash' },
  },
  reference: 'key',
};

export function kindOf(settings: Pick<Settings, 'documents'>, kind: DocumentKind): KindSettings {
  const given = settings.documents[kind];
  if (!given) return defaultKind;
  return given.amend || given.create?.method !== 'PUT' ? given : { ...given, amend: given.create };
}

/**
 * Whether both create and amend replace what stands under a URL of the document's own: however often they are sent, there
 * is one object, so that nobody has to ask before.
 */
export function isByKey({ create, amend }: KindSettings): boolean {
  return create?.method === 'PUT' && amend?.method === 'PUT' && create.path === amend.path;
}
