/**
 * Documents of the kinds `rfi-answers` and `file`: they become attachments of the vendor; a file of a question, which has
 * no supplier, becomes one of the company's own contact. The description holds the marker, the hash of the content written
 * last and the SHA-1 of its bytes, which Odoo keeps of those that it holds.
 */
import { createHash } from 'node:crypto';
import {
  asConnectorError,
  ConflictError,
  DataError,
  type DocumentOf,
  decide,
  dueOf,
  type Found,
  fileBytes,
  type Kind,
  newTask,
  type Operation,
  type Task,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { answersText } from './answers-text.ts';
import { externalId, markerOf } from './external-ids.ts';
import { loadRecords, removeRecords } from './load.ts';
import type { OrderDeps } from './read-named.ts';
import { anyOf, fieldsOf, id, idIn, oneLine, referenceTo, relation, text } from './values.ts';
import { noVendor, partnerModel, type Vendor } from './vendors.ts';

type AttachedKind = 'rfi-answers' | 'file';

const model = 'ir.attachment';
const sha1 = (bytes: Uint8Array) => createHash('sha1').update(bytes).digest('hex');
/** Odoo has none of an attachment that was made without bytes. */
const checksum = text.transform((held) => held || sha1(new Uint8Array()));
const rowsForm = z.array(
  z.object({
    id,
    name: text,
    description: text,
    checksum,
    res_model: text,
    res_id: z.union([z.int(), z.literal(false)]),
  }),
);
type HeldAttachment = z.output<typeof rowsForm>[number];
const checksumRows = z.array(z.object({ id, checksum }));
const companyRows = z.array(z.object({ id, partner_id: relation }));

interface AttachmentTask extends Task<AttachedKind> {
  /** What it is attached to: the vendor, or the company's own contact. */
  vendor: Vendor;
  held: HeldAttachment | undefined;
}

export function createAttachments({ odoo, vendors }: OrderDeps): Kind<AttachedKind> {
  async function find(documents: readonly DocumentOf<AttachedKind>[], signal: AbortSignal) {
    const markers = new Map(documents.map(({ kind, key }) => [key, markerOf(kind, key)]));
    const domain = anyOf([...markers.values()].map((marker) => ['description', '=like', `%${marker}%`]));
    const args = { domain, fields: fieldsOf(rowsForm), order: 'id asc' };
    const rows = await odoo.ask(model, 'search_read', args, rowsForm, signal);
    return new Map(
      [...markers].map(([key, marker]) => [key, rows.filter(({ description }) => description.includes(marker))]),
    );
  }

  /** The company's contact, as the bridge's user may not write to the company itself. */
  async function ownContact(signal: AbortSignal): Promise<Vendor> {
    const own = await odoo.company(signal);
    const domain = own === undefined ? [] : [['id', '=', own]];
    const args = { domain, fields: ['partner_id'], order: 'id asc', limit: 1 };
    const [row] = await odoo.ask('res.company', 'search_read', args, companyRows, signal);
    if (!row?.partner_id) throw new UnknownOutcome('Odoo shows the bridge no company.', { answered: true });
    return { id: row.partner_id.id, code: '', name: row.partner_id.name };
  }

  function planContent(task: AttachmentTask): void {
    const { operation, held, vendor, steps } = task;
    const { document, file } = operation;
    if (document.kind === 'file' && !file) throw new DataError('The bridge sent the file without its bytes.');
    vendors.planMissing(vendor, steps);
    const isThere = held?.res_model === partnerModel && held.res_id === vendor.id;
    if (!held) {
      task.action = 'create';
      steps.push(`Attach "${nameOf(operation)}" to the contact "${vendor.name}".`);
    } else if (!isThere || hashIn(held) !== operation.contentHash) {
      task.action = 'amend';
      steps.push(`Write the attachment "${held.name}" of the contact "${vendor.name}" again.`);
    }
  }

  async function write(task: AttachmentTask, signal: AbortSignal): Promise<void> {
    const { operation, vendor } = task;
    const { document } = operation;
    const bytes =
      document.kind === 'rfi-answers'
        ? answersText(document)
        : ((await fileBytes(operation, signal)) ?? new Uint8Array());
    const wanted = sha1(bytes);
    const cells = {
      id: externalId(prefixOf(document.kind), document.key),
      name: nameOf(operation),
      description: descriptionOf(operation, wanted),
      res_model: partnerModel,
      res_id: String(vendor.id ?? 0),
      datas: Buffer.from(bytes).toString('base64'),
      ...(document.kind === 'rfi-answers' ? { mimetype: 'text/plain' } : {}),
    };
    const [result] = await loadRecords(odoo, model, [{ cells }], signal);
    if (typeof result !== 'number') throw result;
    task.reference = referenceTo(model, result);
    task.isBegun = true;
    await checkBytes(result, wanted, signal);
  }

  /** Odoo takes bytes that it cannot decode without a word, and a module may change them. */
  async function checkBytes(attachment: number, wanted: string, signal: AbortSignal): Promise<void> {
    const args = { ids: [attachment], fields: ['checksum'] };
    const [row] = await odoo.ask(model, 'read', args, checksumRows, signal).catch((error: unknown) => {
      throw new UnknownOutcome(asConnectorError(error).message, { cause: error });
    });
    if (row?.checksum !== wanted)
      throw new DataError(
        `Odoo holds other bytes of ${referenceTo(model, attachment)} than were sent: look for an automation or a module that changes them, and replay.`,
      );
  }

  async function send(tasks: readonly AttachmentTask[], signal: AbortSignal): Promise<void> {
    const written = dueOf(tasks).filter(({ action }) => action === 'create' || action === 'amend');
    await vendors.createMissing(written, signal);
    // One at a time: files may be large, and the bytes of only one are in memory.
    for (const task of dueOf(written)) {
      try {
        await write(task, signal);
      } catch (error) {
        task.error = asConnectorError(error);
      }
    }
    const cancelled = dueOf(tasks).filter(({ action }) => action === 'cancel');
    const gone = cancelled.flatMap((task) => {
      const attachment = idIn(task.reference, model);
      return attachment === undefined ? [] : [{ task, ids: [attachment] }];
    });
    await removeRecords(odoo, model, gone, signal);
  }

  return {
    async plan(operations, signal) {
      const documents = operations.map(({ document }) => document);
      const found = await find(documents, signal);
      const kept = operations.filter(({ action }) => action !== 'cancel').map(({ document }) => document);
      const vendorOf = await vendors.find(
        kept.flatMap(({ supplier }) => supplier ?? []),
        signal,
      );
      const company = kept.some(({ supplier }) => !supplier) ? await ownContact(signal) : noVendor;
      const tasks = operations.map((operation) => {
        const { document, action } = operation;
        const own: AttachmentTask = { ...newTask(operation), vendor: noVendor, held: undefined };
        return decide(own, (task) => {
          const [held, ...more] = found.get(document.key) ?? [];
          if (more.length > 0)
            throw new ConflictError(
              `Odoo holds ${more.length + 1} attachments for this document: delete the wrong ones (ids ${[held, ...more].map((one) => one?.id).join(', ')}).`,
            );
          task.held = held;
          if (held) task.reference = referenceTo(model, held.id);
          if (action === 'cancel') {
            if (!held) return;
            task.action = 'cancel';
            task.steps.push(`Delete the attachment "${held.name}".`);
            return;
          }
          task.vendor = document.supplier ? vendorOf(document.supplier) : company;
          planContent(task);
        });
      });
      return { tasks, send: (signal) => send(tasks, signal) };
    },
    async lookup(documents, signal) {
      const found = await find(documents, signal);
      return [...found].flatMap(([key, all]) =>
        all.map((held): Found => ({ key, reference: referenceTo(model, held.id), contentHash: hashIn(held) })),
      );
    },
  };
}

const prefixOf = (kind: AttachedKind) => (kind === 'file' ? 'file' : 'answers');

function nameOf({ document, file }: Operation<AttachedKind>): string {
  return document.kind === 'file' ? oneLine(file?.name ?? 'file') : `Answers ${oneLine(document.event.name)}.txt`;
}

function descriptionOf({ document, contentHash }: Operation<AttachedKind>, sent: string): string {
  const { event, kind, key } = document;
  const question =
    document.kind === 'file'
      ? [document.question.identifier, document.question.text].filter((part) => part !== undefined).join(' ')
      : '';
  return [
    `Sourcing event "${oneLine(event.name)}"${event.reference_id === undefined ? '' : ` (${event.reference_id})`}`,
    ...(question === '' ? [] : [question]),
    `Kept by the sourcing bridge: ${markerOf(kind, key)} ${contentHash} ${sent}`,
  ].join('\n');
}

/** Undefined where Odoo holds other bytes than were sent with this hash. */
function hashIn({ description, checksum }: HeldAttachment): string | undefined {
  const [, hash, sent] = /SB-[0-9A-Z]{16} ([0-9a-f]{64}) ([0-9a-f]{40})$/mu.exec(description) ?? [];
  return sent === checksum ? hash : undefined;
}
