/** The requests for the documents of a kind: those of the settings, with defaults. */
import { type DocumentKind, documentDecimals, documentNames } from 'sourcing-bridge/connector';
import type { KindSettings, RequestSettings, Settings } from './settings.ts';

const ownUrl = { path: '/{kind}/{key}', headers: {} };
const replace: RequestSettings = { ...ownUrl, method: 'PUT' };

/** For a kind without settings: a URL for each document, by its key. */
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
  // The answer to the lookup is the document, as it was sent.
  read_back: {
    decimals: [...documentDecimals],
    names: [...documentNames],
    changed: {},
  },
  reference: 'key',
};

/** The settings of a kind. An `amend` that is left out is `create`, if that is a PUT. */
export function kindOf(settings: Pick<Settings, 'documents'>, kind: DocumentKind): KindSettings {
  const given = settings.documents[kind];
  if (!given) return defaultKind;
  return given.amend || given.create?.method !== 'PUT' ? given : { ...given, amend: given.create };
}

/**
 * Whether both create and amend replace the object under the document's own URL. However often they are sent, there is
 * one object, so no lookup is needed first.
 */
export function isByKey({ create, amend }: KindSettings): boolean {
  return create?.method === 'PUT' && amend?.method === 'PUT' && create.path === amend.path;
}
