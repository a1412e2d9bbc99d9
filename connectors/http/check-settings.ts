/**
 * Finds what is wrong with settings that the schema accepts: paths that no document has, requests that do not fit their
 * kind, and settings that could create a second object or leave one behind.
 */
import {
  compileJsonPath,
  type DocumentKind,
  documentKinds,
  namedPlaces,
  namedRequisitionPlaces,
  PathError,
  placesOfFlag,
} from 'sourcing-bridge/connector';
import { acknowledgeFaults } from './acknowledge.ts';
import { patternOf } from './answers.ts';
import { isByKey, kindOf } from './kinds.ts';
import { compileReadBack } from './read-back.ts';
import { isFilePart } from './requests.ts';
import type { Action, KindSettings, ListSettings, OpenListSettings, RequestSettings, Settings } from './settings.ts';
import { jsonTemplate, placesOf, rootsOf, textTemplate, urlTemplate } from './templates.ts';

interface SettingFault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** All faults, each with its place in the settings; empty when there are none. */
export function faultsOf(settings: Settings): SettingFault[] {
  const faults: SettingFault[] = [];
  const tryAt = (path: readonly (string | number)[], run: () => unknown) => {
    try {
      run();
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      faults.push({ path: [...path, ...placesOf(error)], message: error.message });
    }
  };
  for (const kind of documentKinds) {
    if (!settings.documents[kind]) continue;
    const given = kindOf(settings, kind);
    const place = ['documents', kind];
    for (const action of ['create', 'amend', 'cancel'] as const) {
      const request = given[action];
      // An amend that repeats create has the same faults: they are reported there.
      if (request && !(action === 'amend' && settings.documents[kind].amend === undefined))
        for (const check of requestFaults(kind, action, request)) tryAt([...place, action, ...check.path], check.run);
    }
    if (given.lookup)
      for (const check of lookupFaults(kind, given)) tryAt([...place, 'lookup', ...check.path], check.run);
    tryAt([...place, 'read_back'], () => compileReadBack(kind, given));
    tryAt(place, () => requireComplete(kind, given));
    const { reference } = given;
    if (typeof reference === 'object' && 'body' in reference)
      tryAt([...place, 'reference', 'body'], () => compileJsonPath(reference.body));
  }
  for (const [index, { body: rule, status }] of settings.answers.entries()) {
    for (const [path, expected] of Object.entries(rule)) {
      tryAt(['answers', index, 'body', path], () => compileJsonPath(path));
      if (typeof expected === 'object' && expected !== null && 'matches' in expected)
        tryAt(['answers', index, 'body', path, 'matches'], () => patternOf(expected.matches));
    }
    if (status === undefined && Object.keys(rule).length === 0)
      faults.push({ path: ['answers', index], message: 'must have a status, a body or both' });
  }
  const { supplier, requisition } = settings.read;
  if (supplier)
    for (const check of readFaults(supplier, namedPlaces(supplier.record)))
      tryAt(['read', 'supplier', ...check.path], check.run);
  if (requisition) {
    const { at: _, ...ofItem } = requisition.record.items;
    const places = [...namedRequisitionPlaces(requisition.record), ...Object.values(ofItem)];
    for (const check of readFaults(requisition, places)) tryAt(['read', 'requisition', ...check.path], check.run);
    const { open_list: openList, acknowledge } = requisition;
    if (openList)
      for (const check of openListFaults(openList))
        tryAt(['read', 'requisition', 'open_list', ...check.path], check.run);
    if (acknowledge)
      for (const check of acknowledgeFaults(acknowledge, settings.idempotency_header))
        tryAt(['read', 'requisition', 'acknowledge', ...check.path], check.run);
  }
  const { message } = settings;
  if (message !== undefined) tryAt(['message'], () => compileJsonPath(message));
  return faults;
}

/** A kind that is set needs all requests that prevent second objects and objects that are left behind. */
function requireComplete(kind: DocumentKind, given: KindSettings): void {
  if (!given.create) throw new PathError('needs create: how a document is sent for the first time');
  if (!given.amend) throw new PathError('needs amend: how a changed document is sent (only a PUT serves for both)');
  if (!given.cancel && kind !== 'supplier') throw new PathError('needs cancel: how a document is withdrawn');
  if (given.lookup) return;
  if (!isByKey(given))
    throw new PathError(
      'needs lookup: after a request that was cut off the bridge has to ask what the ERP holds, or it would create a second object. Only a PUT to a path of the document, for create and amend, works without one',
    );
  if (given.cancel && given.cancel.path !== given.create.path)
    throw new PathError(
      'needs lookup, as cancel has another path than create: the bridge has to see what a request that was cut off has done',
    );
  if (given.reference !== 'key') throw new PathError('needs lookup, or the reference "key"');
}

function readFaults(settings: ListSettings, places: readonly string[]): SettingCheck[] {
  const { path, since } = settings;
  return [
    {
      path: ['since'],
      run: () => {
        if ((since !== undefined) !== path.includes('{since}'))
          throw new PathError('and {since} in the path belong together: set both, or neither');
      },
    },
    ...pageFaults(settings),
    { path: ['record'], run: () => places.map((each) => compileJsonPath(each)) },
  ];
}

function openListFaults(settings: OpenListSettings): SettingCheck[] {
  return [
    {
      path: ['path'],
      run: () => {
        if (settings.path.includes('{'))
          throw new PathError('cannot have {since} or another value: it is the list of all that are open');
      },
    },
    ...pageFaults(settings),
    {
      path: ['reference_id'],
      run: () => settings.reference_id === undefined || compileJsonPath(settings.reference_id),
    },
    { path: ['open'], run: () => placesOfFlag(settings.open).map((each) => compileJsonPath(each)) },
  ];
}

function pageFaults({ list, next }: Pick<ListSettings, 'list' | 'next'>): SettingCheck[] {
  const pathIn =
    typeof next === 'object' ? ('url' in next ? next.url : 'cursor' in next ? next.cursor : undefined) : undefined;
  return [
    ...(list === undefined ? [] : [{ path: ['list'], run: () => compileJsonPath(list) }]),
    ...(pathIn === undefined ? [] : [{ path: ['next'], run: () => compileJsonPath(pathIn) }]),
  ];
}

/** A check of one setting: `run` throws PathError. */
interface SettingCheck {
  readonly path: readonly (string | number)[];
  readonly run: () => unknown;
}

function requestFaults(
  kind: DocumentKind,
  action: Action,
  { method, path, headers, body: content }: RequestSettings,
): SettingCheck[] {
  const roots = rootsOf(kind);
  const usesFile =
    content === 'file' || (typeof content === 'object' && 'multipart' in content && hasFile(content.multipart));
  return [
    { path: ['path'], run: () => urlTemplate(roots, path) },
    {
      path: ['path'],
      run: () => {
        if (action === 'create' && method === 'PUT' && !namesDocument(kind, path))
          throw new PathError(
            'must name the document, for example with {key} (or a field of the mapping): else another document would replace it',
          );
        if (action === 'create' && path.includes('{reference}'))
          throw new PathError('cannot have {reference}: the ERP assigns it when the document is created');
        if (action === 'cancel') refuseFields(path);
      },
    },
    ...Object.entries(headers).map(([name, text]) => ({
      path: ['headers', name],
      run: () => textTemplate(roots, text),
    })),
    {
      path: ['body'],
      run: () => {
        if (usesFile && kind !== 'file')
          throw new PathError(`cannot have bytes: only file documents have them, and not ${kind} documents`);
        if (usesFile && action === 'cancel')
          throw new PathError('cannot have bytes: a file that is withdrawn has none any more');
      },
    },
    ...(typeof content === 'object' && 'json' in content
      ? [{ path: ['body', 'json'], run: () => jsonTemplate(roots, content.json) }]
      : []),
    ...(typeof content === 'object' && 'multipart' in content
      ? Object.entries(content.multipart)
          .filter(([, part]) => !isFilePart(part))
          .map(([name, part]) => ({ path: ['body', 'multipart', name], run: () => jsonTemplate(roots, part) }))
      : []),
  ];
}

/** With them, a withdrawn document could not be found. */
function refuseFields(text: string): void {
  if (/\{\s*(?:fields|lines?)[.[]/.test(text))
    throw new PathError(
      'cannot have fields or lines: a document that is withdrawn has none. Use its key or {reference}',
    );
}

function hasFile(parts: Readonly<Record<string, unknown>>): boolean {
  return Object.values(parts).some(isFilePart);
}

/** Whether no two documents of the kind get the same URL. */
function namesDocument(kind: DocumentKind, path: string): boolean {
  const has = (...names: string[]) =>
    names.every((name) => new RegExp(`\\{\\s*${name.replaceAll('.', '\\.')}[\\s}]`).test(path));
  if (has('key') || /\{\s*fields[.[]/.test(path)) return true;
  if (kind === 'sourcing-event') return has('event.id');
  return kind !== 'supplier' && kind !== 'file' && has('event.id', 'supplier.id');
}

function lookupFaults(kind: DocumentKind, given: KindSettings): SettingCheck[] {
  const { lookup } = given;
  if (!lookup) return [];
  const roots = rootsOf(kind);
  const { path, headers, body: content, list, where, withdrawn, reference, content_hash: hash } = lookup;
  const needsReference =
    typeof given.reference === 'object' ? 'header' in given.reference : given.reference === 'location';
  return [
    { path: ['path'], run: () => urlTemplate(roots, path) },
    {
      path: ['path'],
      run: () => {
        if (/\{\s*(?:reference|content_hash|idempotency_key|action)[\s}]/.test(path))
          throw new PathError('can only have members of the document itself: after a crash nothing else is known');
        refuseFields([path, ...Object.values(where), ...(content ? [JSON.stringify(content.json)] : [])].join(' '));
      },
    },
    ...Object.entries(headers).map(([name, text]) => ({
      path: ['headers', name],
      run: () => textTemplate(roots, text),
    })),
    ...(content ? [{ path: ['body', 'json'], run: () => jsonTemplate(roots, content.json) }] : []),
    ...(list === undefined ? [] : [{ path: ['list'], run: () => compileJsonPath(list) }]),
    ...Object.entries(where).flatMap(([place, text]) => [
      { path: ['where', place], run: () => compileJsonPath(place) },
      { path: ['where', place], run: () => textTemplate(roots, text) },
    ]),
    ...(withdrawn ? [{ path: ['withdrawn', 'path'], run: () => compileJsonPath(withdrawn.path) }] : []),
    ...(reference === undefined ? [] : [{ path: ['reference'], run: () => compileJsonPath(reference) }]),
    ...(hash && 'body' in hash ? [{ path: ['content_hash', 'body'], run: () => compileJsonPath(hash.body) }] : []),
    {
      path: [],
      run: () => {
        if (list !== undefined && Object.keys(where).length === 0)
          throw new PathError(
            'needs where: a search may return other objects, and none of them must be taken for the document',
          );
        if (needsReference && reference === undefined)
          throw new PathError('needs reference: where the found object has its reference');
        const readsBody = [list, withdrawn, reference, ...Object.keys(where)].some((member) => member !== undefined);
        const isInBody = (form: object | string | undefined) => typeof form === 'object' && 'body' in form;
        if (lookup.method === 'HEAD' && (readsBody || isInBody(hash) || isInBody(given.reference)))
          throw new PathError('must be a GET: the answer to a HEAD has no body');
      },
    },
  ];
}
