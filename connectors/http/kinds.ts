/** The requests for the documents of a kind: those of the settings, with defaults. */
import { type DocumentKind, documentDecimals, documentNames } from 'sourcing-bridge/connector';
import type { ActionSettings, KindSettings, RequestSettings, Settings, StepSettings } from './settings.ts';

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
  read_back: { decimals: [...documentDecimals], names: [...documentNames], changed: {} },
  reference: 'key',
};

/** The settings of a kind. An `amend` that is left out is `create`, if that is a PUT or a list of steps. */
export function kindOf(settings: Pick<Settings, 'documents'>, kind: DocumentKind): KindSettings {
  const given = settings.documents[kind];
  if (!given) return defaultKind;
  const { create } = given;
  const servesBoth = Array.isArray(create) || create?.method === 'PUT';
  return given.amend || !servesBoth ? given : { ...given, amend: create };
}

/** The steps of an action: a request that is not in a list is its only one, and has no name. */
export function stepsOf(given: ActionSettings | undefined): readonly StepSettings[] {
  return given === undefined ? [] : [given].flat();
}

/**
 * Whether both create and amend replace the object under the document's own URL. However often they are sent, there is
 * one object, so no lookup is needed first.
 */
export function isByKey({ create, amend }: KindSettings): boolean {
  if (!create || !amend || Array.isArray(create) || Array.isArray(amend)) return false;
  return create.method === 'PUT' && amend.method === 'PUT' && create.path === amend.path;
}
