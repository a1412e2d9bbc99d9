/**
 * Documents of the kinds `rfi-answers` and `file`: they become attachments. Tryton hides the link field of an
 * attachment that has data, so the marker is kept there. The last line of the description holds the hash of the content
 * written last.
 */
import {
  answersPage,
  ConflictError,
  DataError,
  type DocumentOf,
  decide,
  type Found,
  fileBytes,
  type Kind,
  newTask,
  type Operation,
  type SupplierHead,
  type Task,
  z,
} from 'sourcing-bridge/connector';
import { findPurchases, isLive, referenceOfPurchase } from './held-purchases.ts';
import { findQuotations, referenceOfQuotation } from './held-quotations.ts';
import { markerOf } from './markers.ts';
import { codeOf, createMissingSuppliers, findSuppliers, planMissingSupplier, type Supplier } from './parties.ts';
import type { Tryton } from './rpc.ts';
import { sendTasks } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { bytesOf, id, ids, ifUnchanged, oneLine, type ReadRecord, referenceTo, text, timestamp } from './values.ts';

type AttachedKind = 'rfi-answers' | 'file';

const rows = z.array(
  z.object({ id, name: text, link: text, description: text, resource: text, _timestamp: timestamp }),
);
const rowFields = ['name', 'link', 'description', 'resource', '_timestamp'];
type HeldAttachment = z.output<typeof rows>[number];

const attachmentModel = 'ir.attachment';
const referenceOf = (attachment: number) => referenceTo(attachmentModel, attachment);

interface AttachmentTask extends Task<AttachedKind> {
  readonly supplier: Supplier;
  readonly held: HeldAttachment | undefined;
  /** The object to attach to; undefined: the supplier's party. */
  readonly resource: string | undefined;
}

/** One implementation for both kinds. */
export function createAttachments(deps: { tryton: Tryton; settings: Settings }): Kind<'rfi-answers'> & Kind<'file'> {
  return createAttachedKind(deps) as unknown as Kind<'rfi-answers'> & Kind<'file'>;
}

function createAttachedKind({ tryton, settings }: { tryton: Tryton; settings: Settings }): Kind<AttachedKind> {
  async function find(
    documents: readonly DocumentOf<AttachedKind>[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, HeldAttachment[]>> {
    const markers = new Map(documents.map(({ kind, key }) => [key, markerOf(kind, key)]));
    const params = [[['link', 'in', [...markers.values()]]], 0, null, [['id', 'ASC']], rowFields];
    const found = await tryton.ask(`${attachmentModel}.search_read`, params, rows, signal);
    return new Map([...markers].map(([key, marker]) => [key, found.filter(({ link }) => link === marker)]));
  }

  async function planEach(
    operations: readonly Operation<AttachedKind>[],
    signal: AbortSignal,
  ): Promise<AttachmentTask[]> {
    const documents = operations.map(({ document }) => document);
    const found = await find(documents, signal);
    const { company } = await tryton.session(signal);
    const suppliers = await findSuppliers(
      tryton,
      documents.flatMap(({ supplier }) => supplier ?? []),
      signal,
    );
    const targets = await findTargets(documents, signal);
    return operations.map((operation): AttachmentTask => {
      const { document, action } = operation;
      const [held, ...more] = found.get(document.key) ?? [];
      const supplier = document.supplier ? (suppliers.get(codeOf(document.supplier)) as Supplier) : noSupplier;
      // A file without a supplier belongs to a question: it is attached to the company.
      const resource = document.supplier ? targets.get(pairOf(document)) : referenceTo('company.company', company);
      return decide({ ...newTask(operation), supplier, held, resource }, (task) => {
        if (held) task.reference = referenceOf(held.id);
        if (more.length > 0)
          throw new ConflictError(
            `Tryton holds ${more.length + 1} attachments for this document: delete the wrong ones (ids ${[held, ...more].map((attachment) => attachment?.id).join(', ')}).`,
          );
        if (action !== 'cancel') planContent(task);
        else if (held) {
          task.action = 'cancel';
          task.steps.push(`Delete the attachment "${held.name}".`);
        }
      });
    });
  }

  /**
   * By event and supplier: the quotation or purchase to attach to. Only if the settings say so and Tryton has one.
   */
  async function findTargets(
    documents: readonly DocumentOf<AttachedKind>[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const wanted = documents
      .filter(({ supplier }) => supplier)
      .map((document) => ({ key: pairOf(document), reference: undefined }));
    if (settings.attach_to === 'supplier' || wanted.length === 0) return new Map();
    if (settings.attach_to === 'purchase') {
      const found = await findPurchases(tryton, wanted, signal);
      return new Map(
        [...found].flatMap(([key, all]) =>
          all
            .filter(isLive)
            .slice(0, 1)
            .map(({ row }) => [key, referenceOfPurchase(row.id)] as const),
        ),
      );
    }
    const found = await findQuotations(tryton, wanted, signal);
    return new Map(
      [...found].flatMap(([key, all]) =>
        all.slice(0, 1).map(({ row }) => [key, referenceOfQuotation(row.id)] as const),
      ),
    );
  }

  function planContent(task: AttachmentTask): void {
    const { operation, steps, held, supplier, resource } = task;
    const { document, file } = operation;
    if (resource === undefined) planMissingSupplier(supplier, settings, steps);
    const name = nameOf(operation);
    const place = resource ?? `the party ${supplier.code} "${supplier.name}"`;
    if (document.kind === 'file' && !file) throw new DataError('The bridge sent the file without its bytes.');
    const target = resource ?? (supplier.id === undefined ? undefined : referenceTo('party.party', supplier.id));
    if (!held) {
      task.action = 'create';
      steps.push(`Attach "${name}" to ${place}.`);
    } else if (contentHashIn(held) !== operation.contentHash || held.resource !== target) {
      task.action = 'amend';
      steps.push(
        held.resource === target
          ? `Replace the attachment "${held.name}" with "${name}".`
          : `Attach "${name}" to ${place} instead of ${held.resource}.`,
      );
    }
  }

  async function valuesOf(
    { operation, supplier, resource, held }: AttachmentTask,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const { document } = operation;
    return {
      name: nameOf(operation),
      type: 'data',
      link: markerOf(document.kind, document.key),
      resource: resource ?? referenceTo('party.party', supplier.id ?? 0),
      description: descriptionOf(operation),
      // The bytes of a file never change.
      ...(document.kind === 'file' && held ? {} : { data: bytesOf(await contentOf(operation, signal)) }),
    };
  }

  async function createAndAmend(tasks: readonly AttachmentTask[], signal: AbortSignal): Promise<void> {
    await sendTasks(
      tasks.filter(({ action }) => action === 'create'),
      async (batch) => {
        const values = [];
        for (const task of batch) values.push(await valuesOf(task, signal));
        return tryton.change(`${attachmentModel}.create`, [values], ids, signal);
      },
      {
        signal,
        done: (task, created) => {
          task.reference = referenceOf(created);
        },
        findCreated: async (batch) => {
          const documents = batch.map(({ operation }) => operation.document);
          const found = await find(documents, signal);
          return documents.map(({ key }) => found.get(key)?.[0]?.id);
        },
      },
    );
    await sendTasks(
      tasks.filter(({ action }) => action === 'amend'),
      async (batch) => {
        const pairs: unknown[] = [];
        for (const task of batch) pairs.push([task.held?.id], await valuesOf(task, signal));
        const context = ifUnchanged(batch.flatMap(({ held }): ReadRecord[] => (held ? [[attachmentModel, held]] : [])));
        await tryton.change(`${attachmentModel}.write`, pairs, z.unknown(), signal, context);
        return batch;
      },
      { signal },
    );
  }

  async function send(tasks: readonly AttachmentTask[], signal: AbortSignal): Promise<void> {
    const needParty = tasks.filter(
      ({ operation, resource }) => operation.action !== 'cancel' && resource === undefined,
    );
    await createMissingSuppliers(tryton, needParty, signal);
    const files = tasks.filter(({ operation }) => operation.document.kind === 'file');
    await createAndAmend(
      tasks.filter((task) => !files.includes(task)),
      signal,
    );
    // One at a time: files may be large, and the bytes of only one are in memory.
    for (const task of files) await createAndAmend([task], signal);
    await sendTasks(
      tasks.filter(({ action }) => action === 'cancel'),
      async (batch) => {
        await tryton.change(`${attachmentModel}.delete`, [batch.map(({ held }) => held?.id)], z.unknown(), signal);
        return batch;
      },
      { signal },
    );
  }

  return {
    async plan(operations, signal) {
      const tasks = await planEach(operations, signal);
      return { tasks, send: (signal) => send(tasks, signal) };
    },
    async lookup(documents, signal) {
      const found = await find(documents, signal);
      return [...found].flatMap(([key, all]) =>
        all.map((held): Found => ({ key, reference: referenceOf(held.id), contentHash: contentHashIn(held) })),
      );
    },
  };
}

/** Stands in for the supplier of a document that names none. */
const noSupplier: Supplier = {
  id: 0,
  code: '',
  name: '',
  address: undefined,
  paymentTerm: undefined,
  hasTaxRule: false,
};

/** The key of the quotation or award of the same event and supplier. */
function pairOf({ event, supplier }: { event: { id: string }; supplier?: SupplierHead | undefined }): string {
  return `${event.id}/${supplier?.id ?? ''}`;
}

function nameOf({ document, file }: Operation<AttachedKind>): string {
  return document.kind === 'file' ? oneLine(file?.name ?? 'file') : `Answers ${oneLine(document.event.name)}.html`;
}

async function contentOf(operation: Operation<AttachedKind>, signal: AbortSignal): Promise<Uint8Array> {
  const { document } = operation;
  if (document.kind === 'rfi-answers') return answersPage(document);
  return (await fileBytes(operation, signal)) ?? new Uint8Array();
}

function descriptionOf({ document, contentHash }: Operation<AttachedKind>): string {
  const { event } = document;
  const origin = `Sourcing event "${oneLine(event.name)}"${event.reference_id === undefined ? '' : ` (${event.reference_id})`}`;
  const question =
    document.kind === 'file'
      ? [[document.question.identifier, document.question.text].filter((part) => part !== undefined).join(' ')]
      : [];
  return [origin, ...question.filter((part) => part !== ''), `content ${contentHash}`].join('\n');
}

function contentHashIn({ description }: HeldAttachment): string | undefined {
  return /^content ([0-9a-f]{64})$/mu.exec(description)?.[1];
}
