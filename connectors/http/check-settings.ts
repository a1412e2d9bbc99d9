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
import { checkAcknowledge } from './acknowledge.ts';
import { compileReference, compileRules } from './answers.ts';
import { isByKey, kindOf, stepsOf } from './kinds.ts';
import { compileFindHeld } from './lookup.ts';
import { placeOfNext } from './pages.ts';
import { compileReadBack } from './read-back.ts';
import { isFilePart } from './requests.ts';
import type {
  Action,
  KindSettings,
  ListSettings,
  LookupSettings,
  OpenListSettings,
  PageSettings,
  SearchSettings,
  Settings,
  StepSettings,
} from './settings.ts';
import { compileSteps } from './steps.ts';
import { at, placesOf } from './templates.ts';

interface SettingFault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** The faults, each with its place in the settings: of a request or a list the first one. Empty when there are none. */
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
    // An amend that repeats create has the same faults: they are reported there.
    for (const action of ['create', 'amend', 'cancel'] as const)
      if (action !== 'amend' || settings.documents[kind].amend !== undefined)
        tryAt([...place, action], () => {
          compileSteps(kind, given[action], settings.idempotency_header);
          checkSteps(kind, action, given);
        });
    tryAt([...place, 'lookup'], () => {
      if (given.lookup) checkLookup(given, given.lookup);
      compileFindHeld(kind, given);
    });
    tryAt([...place, 'read_back'], () => compileReadBack(kind, given));
    tryAt(place, () => requireComplete(kind, given));
    tryAt(place, () => compileReference(given.reference));
  }
  tryAt(['answers'], () => compileRules(settings.answers));
  const { supplier, requisition } = settings.read;
  if (supplier) tryAt(['read', 'supplier'], () => checkList(supplier, namedPlaces(supplier.record)));
  if (requisition) {
    const { record, open_list: openList, acknowledge } = requisition;
    const { at: _, ...ofItem } = record.items;
    const place = ['read', 'requisition'];
    tryAt(place, () => checkList(requisition, [...namedRequisitionPlaces(record), ...Object.values(ofItem)]));
    if (openList) tryAt([...place, 'open_list'], () => checkOpenList(openList));
    if (acknowledge) tryAt([...place, 'acknowledge'], () => checkAcknowledge(acknowledge, settings.idempotency_header));
  }
  const { message } = settings;
  if (message !== undefined) tryAt(['message'], () => compileJsonPath(message));
  return faults;
}

/** A kind that is set needs all requests that prevent second objects and objects that are left behind. */
function requireComplete(kind: DocumentKind, given: KindSettings): void {
  const { create, amend, cancel, lookup, reference } = given;
  if (!create) throw new PathError('needs create: how a document is sent for the first time');
  if (!amend)
    throw new PathError(
      'needs amend: how a changed document is sent (only a PUT, or a list of steps, serves for both)',
    );
  if (!cancel && kind !== 'supplier') throw new PathError('needs cancel: how a document is withdrawn');
  if (typeof reference === 'object' && 'captured' in reference)
    for (const steps of [create, amend].map(stepsOf))
      if (!steps.some(({ capture = {} }) => Object.hasOwn(capture, reference.captured)))
        throw new PathError(`has the reference ${reference.captured}, which not both create and amend capture`);
  if (lookup) return;
  if (!isByKey(given))
    throw new PathError(
      'needs lookup: after a request that was cut off the bridge has to ask what the ERP holds, or it would create a second object. Only a PUT to a path of the document, for create and amend, works without one',
    );
  if (cancel && stepsOf(cancel).some(({ path }) => path !== stepsOf(create)[0]?.path))
    throw new PathError(
      'needs lookup, as cancel has another path than create: the bridge has to see what a request that was cut off has done',
    );
  if (reference !== 'key') throw new PathError('needs lookup, or the reference "key"');
}

function checkList(settings: ListSettings, places: readonly string[]): void {
  at('since', () => {
    if ((settings.since !== undefined) !== settings.path.includes('{since}'))
      throw new PathError('and {since} in the path belong together: set both, or neither');
  });
  checkPages(settings);
  at('record', () => places.map((each) => compileJsonPath(each)));
}

function checkOpenList(settings: OpenListSettings): void {
  at('path', () => {
    if (settings.path.includes('{'))
      throw new PathError('cannot have {since} or another value: it is the list of all that are open');
  });
  checkPages(settings);
  at('reference_id', () => settings.reference_id === undefined || compileJsonPath(settings.reference_id));
  at('open', () => placesOfFlag(settings.open).map((each) => compileJsonPath(each)));
}

function checkPages({ list, next, has_more, total }: PageSettings): void {
  for (const [name, place] of Object.entries({ list, next: placeOfNext(next), has_more, total }))
    if (place !== undefined) at(name, () => compileJsonPath(place));
}

/** Throws PlacedFault for requests that do not fit their kind, or that could be carried out twice. */
function checkSteps(kind: DocumentKind, action: Action, given: KindSettings): void {
  const steps = stepsOf(given[action]);
  const names = steps.map(({ name }) => name);
  for (const [index, step] of steps.entries()) {
    if (!Array.isArray(given[action])) return checkStep(kind, action, step);
    at(index, () => {
      if (names.indexOf(step.name) < index) throw new PathError('has the name of a step before it');
      checkStep(kind, action, step);
      checkRepeatable(action, step);
    });
  }
}

/** A step is walked again after an attempt that ended in the middle: it must be seen as done, or be harmless twice. */
function checkRepeatable(action: Action, { name: step, method, find, capture = {} }: StepSettings): void {
  if (!find && (method === 'POST' || method === 'PATCH'))
    throw new PathError(
      `needs find: after an attempt that ended in the middle all steps are walked again, and find has to show whether "${step}" is done. Only a PUT or DELETE works without one`,
    );
  if (!find) return;
  const names = (of: object) => Object.keys(of).toSorted().join(', ');
  at('find', () => {
    checkSearch(find, Object.keys(capture));
    if (names(find.capture ?? capture) !== names(capture))
      throw new PathError(`must capture what the step captures: ${names(capture) || 'nothing'}`);
    const unknown = action === 'create' ? /\{\s*(?:idempotency_key|reference)[\s}]/ : /\{\s*idempotency_key[\s}]/;
    const [name] = unknown.exec(JSON.stringify(find)) ?? [];
    if (name !== undefined) throw new PathError(`cannot have ${name}: another attempt has another one, or none`);
    if (action === 'cancel') refuseFields(JSON.stringify(find));
  });
}

function checkStep(kind: DocumentKind, action: Action, { name, method, path, body: content }: StepSettings): void {
  const usesFile =
    content === 'file' ||
    (typeof content === 'object' && 'multipart' in content && Object.values(content.multipart).some(isFilePart));
  at('path', () => {
    if (action === 'create' && name === undefined && method === 'PUT' && !namesDocument(kind, path))
      throw new PathError(
        'must name the document, for example with {key} (or a field of the mapping): else another document would replace it',
      );
    if (action === 'create' && path.includes('{reference}'))
      throw new PathError('cannot have {reference}: the ERP assigns it when the document is created');
    if (action === 'cancel') refuseFields(path);
  });
  at('body', () => {
    if (usesFile && kind !== 'file')
      throw new PathError(`cannot have bytes: only file documents have them, and not ${kind} documents`);
    if (usesFile && action === 'cancel')
      throw new PathError('cannot have bytes: a file that is withdrawn has none any more');
  });
}

/** With them, a withdrawn document could not be found. */
function refuseFields(text: string): void {
  if (/\{\s*(?:fields|lines?)[.[]/.test(text))
    throw new PathError(
      'cannot have fields or lines: a document that is withdrawn has none. Use its key or {reference}',
    );
}

/** Whether no two documents of the kind get the same URL. */
function namesDocument(kind: DocumentKind, path: string): boolean {
  const has = (...names: string[]) =>
    names.every((name) => new RegExp(`\\{\\s*${name.replaceAll('.', '\\.')}[\\s}]`).test(path));
  if (has('key') || /\{\s*fields[.[]/.test(path)) return true;
  if (kind === 'sourcing-event') return has('event.id');
  return kind !== 'supplier' && kind !== 'file' && has('event.id', 'supplier.id');
}

function checkLookup(given: KindSettings, lookup: LookupSettings): void {
  const { path, body: content, where, withdrawn, reference, content_hash: hash } = lookup;
  at('path', () => {
    if (/\{\s*(?:reference|content_hash|idempotency_key|action)[\s}]/.test(path))
      throw new PathError('can only have members of the document itself: after a crash nothing else is known');
    refuseFields(JSON.stringify([path, where, content]));
  });
  const needsReference = typeof given.reference === 'object' ? !('body' in given.reference) : given.reference !== 'key';
  if (needsReference && reference === undefined)
    throw new PathError('needs reference: where the found object has its reference');
  const inBody = [hash, given.reference].filter((form) => typeof form === 'object' && 'body' in form);
  checkSearch(lookup, [withdrawn, reference, ...inBody]);
}

/** `inBody` is what else is read of the body of the answer; undefined where it is not set. */
function checkSearch({ method, list, where }: SearchSettings, inBody: readonly unknown[]): void {
  if (list !== undefined && Object.keys(where).length === 0)
    throw new PathError(
      'needs where: a search may return other objects, and none of them must be taken for the document',
    );
  if (method === 'HEAD' && [list, ...Object.keys(where), ...inBody].some((each) => each !== undefined))
    throw new PathError('must be a GET: the answer to a HEAD has no body');
}
