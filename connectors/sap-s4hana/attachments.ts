/**
 * Events, answers and files as attachments (API_CV_ATTACHMENT_SRV): an event and answers as an HTML page, a file with its
 * bytes. An attachment has no field for a key, so its name carries the marks of the document's key and of its
 * content: `Answers Steel [MZXW6YTBOI23-ACWVNUCIX4WG].html`. A changed one is uploaded before the old one is deleted;
 * what a kill leaves is found by the mark, and deleted by the next write.
 */
import {
  answersPage,
  ConflictError,
  ConnectorError,
  DataError,
  type DocumentOf,
  type Found,
  fileBytes,
  type Kind,
  LockedError,
  type Operation,
  z,
} from 'sourcing-bridge/connector';
import { literal } from './batch.ts';
import { eventPage } from './event-page.ts';
import { type Decision, type Deps, kindOfParts, nothingToDo, referenceOf } from './kind.ts';
import { checkFields } from './mapping-fields.ts';
import { keyMarker } from './markers.ts';
import { textOrEmpty } from './odata.ts';
import { findSuppliers, type PartnerOf } from './partners.ts';

export type AttachedKind = 'sourcing-event' | 'rfi-answers' | 'file';

export const attachmentService = 'API_CV_ATTACHMENT_SRV';
const objectName = 'Attachment';
/** The business object of suppliers, which answers and files are attached to. */
const supplierObject = 'LFA1';

const keyShape = {
  DocumentInfoRecordDocType: textOrEmpty,
  DocumentInfoRecordDocNumber: textOrEmpty,
  DocumentInfoRecordDocVersion: textOrEmpty,
  DocumentInfoRecordDocPart: textOrEmpty,
  LogicalDocument: textOrEmpty,
  ArchiveDocumentID: textOrEmpty,
  LinkedSAPObjectKey: textOrEmpty,
  BusinessObjectTypeName: textOrEmpty,
};
const attachmentForm = z.object({ ...keyShape, FileName: textOrEmpty, FileSize: textOrEmpty });
export const attachmentForms = { AttachmentContentSet: attachmentForm };
type HeldAttachment = z.output<typeof attachmentForm>;

/** What an attachment belongs to: a business object of SAP and its number. */
interface Target {
  readonly type: string;
  readonly key: string;
}

interface Held {
  readonly lists: ReadonlyMap<string, readonly HeldAttachment[]>;
  readonly partnerOf: PartnerOf;
}

/** One implementation for the three kinds. */
export function createAttachments(deps: Deps): Kind<'sourcing-event'> & Kind<'rfi-answers'> & Kind<'file'> {
  const kind = kindOfParts<AttachedKind, Held>(
    {
      read: (operations, signal) =>
        read(
          deps,
          operations.map(({ document }) => document),
          signal,
        ),
      decideOn: (operation, held) => decideOn(deps, operation, held),
      async lookup(documents, signal) {
        const held = await read(deps, documents, signal);
        return documents.flatMap((document): Found[] => {
          const target = targetIfAny(document, held.partnerOf);
          const isThere = target !== undefined && heldOf(document, target, held).length > 0;
          const reference = referenceOf(objectName, markOf(document));
          return isThere ? [{ key: document.key, reference, contentHash: undefined }] : [];
        });
      },
    },
    deps,
  );
  return kind as unknown as Kind<'sourcing-event'> & Kind<'rfi-answers'> & Kind<'file'>;
}

/** Throws for a document that names no object, and for a supplier that SAP does not have. */
function targetOf(document: DocumentOf<AttachedKind>, partnerOf: PartnerOf): Target {
  checkFields(document.fields, 'attachments');
  const given = document.fields?.['attach_to'] ?? '';
  const [, type, key] = /^([\w/]{1,40})\/([^/]{1,90})$/u.exec(given) ?? [];
  if (type !== undefined && key !== undefined) return { type, key: paddedNumber(key) };
  if (given !== '')
    throw new DataError(
      `attach_to is "${given.slice(0, 60)}": it names a business object and its number, such as BUS2105/10000017 (BusinessObjectTypeName, LinkedSAPObjectKey)`,
    );
  const supplier = 'supplier' in document ? document.supplier : undefined;
  if (!supplier)
    throw new DataError(
      'the document belongs to no supplier: the flow’s mapping has to name the object of SAP that it is attached to (attach_to, such as BUS2105/10000017)',
    );
  return { type: supplierObject, key: paddedNumber(partnerOf(supplier).number) };
}

/** Undefined where `targetOf` throws for this document alone. */
function targetIfAny(document: DocumentOf<AttachedKind>, partnerOf: PartnerOf): Target | undefined {
  try {
    return targetOf(document, partnerOf);
  } catch (error) {
    if (error instanceof DataError || error instanceof LockedError || error instanceof ConflictError) return undefined;
    throw error;
  }
}

async function read(
  { odata }: Deps,
  documents: readonly DocumentOf<AttachedKind>[],
  signal: AbortSignal,
): Promise<Held> {
  const suppliers = documents.flatMap((document) => ('supplier' in document ? (document.supplier ?? []) : []));
  const partnerOf = await findSuppliers(odata, suppliers, signal);
  const lists = new Map<string, readonly HeldAttachment[]>();
  for (const document of documents) {
    const target = targetIfAny(document, partnerOf);
    if (!target || lists.has(nameOf(target))) continue;
    const given = { BusinessObjectTypeName: literal(target.type), LinkedSAPObjectKey: literal(target.key) };
    lists.set(nameOf(target), await odata.ask(attachmentService, 'GetAllOriginals', attachmentForm, given, signal));
  }
  return { lists, partnerOf };
}

function heldOf(document: DocumentOf<AttachedKind>, target: Target, { lists }: Held): HeldAttachment[] {
  const mark = markOf(document);
  return (lists.get(nameOf(target)) ?? []).filter(({ FileName }) => markIn(FileName)?.mark === mark);
}

function decideOn(deps: Deps, operation: Operation<AttachedKind>, all: Held): Decision {
  const { document, action } = operation;
  if (action === 'cancel') return removal(deps, operation, all);
  const target = targetOf(document, all.partnerOf);
  const held = heldOf(document, target, all);
  const name = fileNameOf(operation);
  const wanted = markIn(name)?.content;
  const current = held.find(({ FileName }) => markIn(FileName)?.content === wanted);
  const others = held.filter((attachment) => attachment !== current);
  const reference = referenceOf(objectName, markOf(document));
  if (current && others.length === 0) return nothingToDo(reference);
  const place = `${target.type} ${target.key}`;
  return {
    action: held.length > 0 ? 'amend' : 'create',
    steps: [
      ...(current ? [] : [`attach "${name}" to ${place}`]),
      ...others.map(({ FileName }) => `delete the attachment "${FileName}" of ${place}`),
    ],
    reference,
    run: async (signal) => {
      if (!current) await upload(deps, operation, { target, name }, signal);
      await remove(deps, others, signal).catch((error: unknown) => {
        if (error instanceof ConnectorError) error.partial = !current;
        throw error;
      });
      return reference;
    },
  };
}

function removal(deps: Deps, { document, reference }: Operation<AttachedKind>, all: Held): Decision {
  const target = targetIfAny(document, all.partnerOf);
  const held = target ? heldOf(document, target, all) : [];
  const own = reference ?? referenceOf(objectName, markOf(document));
  if (held.length === 0) return nothingToDo(own);
  return {
    action: 'cancel',
    steps: held.map(({ FileName }) => `delete the attachment "${FileName}"`),
    reference: own,
    run: async (signal) => {
      await remove(deps, held, signal);
      return own;
    },
  };
}

/** Its name says that it has the content, so one with other bytes is taken away again. */
async function upload(
  deps: Deps,
  operation: Operation<AttachedKind>,
  { target, name }: { target: Target; name: string },
  signal: AbortSignal,
): Promise<void> {
  const bytes = await contentOf(operation, signal);
  const headers = {
    slug: encodeURIComponent(name),
    'content-type': operation.document.kind === 'file' ? 'application/octet-stream' : 'text/html; charset=utf-8',
    businessobjecttypename: target.type,
    linkedsapobjectkey: target.key,
  };
  const entity = await deps.odata.upload(attachmentService, 'AttachmentContentSet', { bytes, headers }, signal);
  const { data } = attachmentForm.safeParse(entity);
  const size = Number(data?.FileSize === '' ? Number.NaN : data?.FileSize);
  if (!data || Number.isNaN(size) || size === bytes.byteLength) return;
  await remove(deps, [data], signal);
  throw new DataError(
    `SAP keeps ${size} bytes of the attachment "${name}", which has ${bytes.byteLength}: find out what changes it on its way, and replay`,
  );
}

async function remove({ odata }: Deps, attachments: readonly HeldAttachment[], signal: AbortSignal): Promise<void> {
  const names = Object.keys(keyShape) as (keyof typeof keyShape)[];
  for (const attachment of attachments) {
    const key = Object.fromEntries(names.map((name) => [name, attachment[name]]));
    const change = { what: 'delete', method: 'DELETE', set: 'AttachmentContentSet', key } as const;
    await odata.change(attachmentService, change, signal);
  }
}

function nameOf({ type, key }: Target): string {
  return `${type}/${key}`;
}

/** A file may be attached to the same supplier as answers: the kind is a part of the key. */
function markOf({ kind, key }: DocumentOf<AttachedKind>): string {
  return keyMarker(`${kind}/${key}`);
}

/** SAP's internal form of a document's number. */
function paddedNumber(key: string): string {
  return /^\d+$/u.test(key) ? key.padStart(10, '0') : key;
}

/** AttachmentContentSet-FileName, Edm.String(255). */
const fileNameMax = 255;
const longestExtension = 20;

function fileNameOf({ document, file, contentHash }: Operation<AttachedKind>): string {
  const mark = `[${markOf(document)}-${keyMarker(contentHash)}]`;
  if (document.kind === 'file') {
    const [base, extension] = dividedName(file?.name ?? 'file');
    return markedName(base, mark, extension);
  }
  const title = document.kind === 'rfi-answers' ? `Answers ${document.event.name}` : `Event ${document.event.name}`;
  return markedName(title, mark, '.html');
}

function dividedName(name: string): [base: string, extension: string] {
  const [, base, extension] = /^(.+)(\.[^.]+)$/su.exec(name) ?? [];
  return base === undefined || extension === undefined || extension.length > longestExtension
    ? [name, '']
    : [base, extension];
}

/** Without characters that no file name may have. */
function markedName(base: string, mark: string, extension: string): string {
  const clean = (text: string) => text.toWellFormed().replaceAll(/[\s\p{Cc}/\\:*?"<>|]+/gu, ' ');
  const end = ` ${mark}${clean(extension)}`;
  let kept = '';
  for (const character of clean(base)) {
    if (kept.length + character.length + end.length > fileNameMax) break;
    kept += character;
  }
  return kept + end;
}

/** The marks in an attachment's name; undefined for one of somebody else. */
function markIn(name: string): { mark: string; content: string } | undefined {
  const [, mark, content] = /\[([A-Z2-7]{12})-([A-Z2-7]{12})\][^[\]]*$/u.exec(name) ?? [];
  return mark === undefined || content === undefined ? undefined : { mark, content };
}

async function contentOf(operation: Operation<AttachedKind>, signal: AbortSignal): Promise<Uint8Array> {
  const { document } = operation;
  if (document.kind === 'rfi-answers') return answersPage(document);
  if (document.kind === 'sourcing-event') return eventPage(document);
  return (await fileBytes(operation, signal)) ?? new Uint8Array();
}
