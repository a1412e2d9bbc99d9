/**
 * Answers and files, as attachments. An attachment's link field is hidden where it has data: it holds the marker, and its
 * description, at the end, the hash of what was written last.
 */
import {
  ConflictError,
  DataError,
  type DocumentOf,
  type Found,
  fileBytes,
  type Operation,
  type SupplierHead,
  z,
} from 'sourcing-bridge/connector';
import { answersPage } from './answers-page.ts';
import { findPurchases, isLive, referenceOfPurchase } from './held-purchases.ts';
import { findQuotations, referenceOfQuotation } from './held-quotations.ts';
import { markerOf } from './markers.ts';
import { checkMissing, codeOf, findSuppliers, makeMissingSuppliers, type Supplier } from './parties.ts';
import type { Tryton } from './rpc.ts';
import { sendTasks } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { decide, type Kind, newTask, type Task } from './task.ts';
import { bytesOf, id, ids, ifUnchanged, oneLine, type Read, referenceTo, stamp, text } from './values.ts';

type AttachedKind = 'rfi-answers' | 'file';

const rows = z.array(z.object({ id, name: text, link: text, description: text, resource: text, _timestamp: stamp }));
const rowFields = ['name', 'link', 'description', 'resource', '_timestamp'];
type HeldAttachment = z.output<typeof rows>[number];

const attachmentModel = 'ir.attachment';
const referenceOf = (attachment: number) => referenceTo(attachmentModel, attachment);

interface AttachmentTask extends Task<AttachedKind> {
  readonly supplier: Supplier;
  readonly held: HeldAttachment | undefined;
  /** Another object than the supplier's party. */
  readonly resource: string | undefined;
}

/** Of either kind. */
export function createAttachments(deps: { tryton: Tryton; settings: Settings }): Kind<'rfi-answers'> & Kind<'file'> {
  return createBoth(deps) as unknown as Kind<'rfi-answers'> & Kind<'file'>;
}

function createBoth({ tryton, settings }: { tryton: Tryton; settings: Settings }): Kind<AttachedKind> {
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
    const { company } = await tryton.self(signal);
    const suppliers = await findSuppliers(
      tryton,
      documents.flatMap(({ supplier }) => supplier ?? []),
      signal,
    );
    const targets = await findTargets(documents, signal);
    return operations.map((operation): AttachmentTask => {
      const { document, action } = operation;
      const [held, ...more] = found.get(document.key) ?? [];
      const supplier = document.supplier ? (suppliers.get(codeOf(document.supplier)) as Supplier) : nobody;
      // A file that belongs to a question is the company's own.
      const resource = document.supplier ? targets.get(pairOf(document)) : referenceTo('company.company', company);
      return decide({ ...newTask(operation), supplier, held, resource }, (task) => {
        if (held) task.reference = referenceOf(held.id);
        if (more.length > 0)
          throw new ConflictError(
            `Tryton holds ${more.length + 1} attachments for this: delete those that are not right (ids ${[held, ...more].map((one) => one?.id).join(', ')}).`,
          );
        if (action !== 'cancel') planContent(task);
        else if (held) {
          task.action = 'cancel';
          task.steps.push(`Delete the attachment "${held.name}".`);
        }
      });
    });
  }

  /** The quotation or purchase of the pair, by pair, where the settings want it and Tryton has one. */
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
    if (resource === undefined) checkMissing(supplier, settings, steps);
    const name = nameOf(operation);
    const where = resource ?? `the party ${supplier.code} "${supplier.name}"`;
    if (document.kind === 'file' && !file) throw new DataError('The file came without its bytes.');
    const target = resource ?? (supplier.id === undefined ? undefined : referenceTo('party.party', supplier.id));
    if (!held) {
      task.action = 'create';
      steps.push(`Attach "${name}" to ${where}.`);
    } else if (hashIn(held) !== operation.contentHash || held.resource !== target) {
      task.action = 'amend';
      steps.push(
        held.resource === target
          ? `Replace the attachment "${held.name}" with "${name}".`
          : `Attach "${name}" to ${where} instead of ${held.resource}.`,
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
      description: described(operation),
      // The bytes of a file never change.
      ...(document.kind === 'file' && held ? {} : { data: bytesOf(await contentOf(operation, signal)) }),
    };
  }

  async function sendSome(tasks: readonly AttachmentTask[], signal: AbortSignal): Promise<void> {
    await sendTasks(
      tasks.filter(({ action }) => action === 'create'),
      async (some) => {
        const values = [];
        for (const task of some) values.push(await valuesOf(task, signal));
        return tryton.change(`${attachmentModel}.create`, [values], ids, signal);
      },
      {
        signal,
        done: (task, made) => {
          task.reference = referenceOf(made);
        },
        findMade: async (some) => {
          const documents = some.map(({ operation }) => operation.document);
          const found = await find(documents, signal);
          return documents.map(({ key }) => found.get(key)?.[0]?.id);
        },
      },
    );
    await sendTasks(
      tasks.filter(({ action }) => action === 'amend'),
      async (some) => {
        const pairs: unknown[] = [];
        for (const task of some) pairs.push([task.held?.id], await valuesOf(task, signal));
        const context = ifUnchanged(some.flatMap(({ held }): Read[] => (held ? [[attachmentModel, held]] : [])));
        await tryton.change(`${attachmentModel}.write`, pairs, z.unknown(), signal, context);
        return some;
      },
      { signal },
    );
  }

  async function send(tasks: readonly AttachmentTask[], signal: AbortSignal): Promise<void> {
    const needParty = tasks.filter(
      ({ operation, resource }) => operation.action !== 'cancel' && resource === undefined,
    );
    await makeMissingSuppliers(tryton, needParty, signal);
    const files = tasks.filter(({ operation }) => operation.document.kind === 'file');
    await sendSome(
      tasks.filter((task) => !files.includes(task)),
      signal,
    );
    // They may be large: never the bytes of two at once.
    for (const task of files) await sendSome([task], signal);
    await sendTasks(
      tasks.filter(({ action }) => action === 'cancel'),
      async (some) => {
        await tryton.change(`${attachmentModel}.delete`, [some.map(({ held }) => held?.id)], z.unknown(), signal);
        return some;
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
        all.map((held): Found => ({ key, reference: referenceOf(held.id), contentHash: hashIn(held) })),
      );
    },
  };
}

/** Of a document that names no supplier. */
const nobody: Supplier = { id: 0, code: '', name: '', address: undefined, paymentTerm: undefined, hasTaxRule: false };

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

function described({ document, contentHash }: Operation<AttachedKind>): string {
  const { event } = document;
  const from = `Sourcing event "${oneLine(event.name)}"${event.reference_id === undefined ? '' : ` (${event.reference_id})`}`;
  const question =
    document.kind === 'file'
      ? [[document.question.identifier, document.question.text].filter((part) => part !== undefined).join(' ')]
      : [];
  return [from, ...question.filter((part) => part !== ''), `content ${contentHash}`].join('\n');
}

function hashIn({ description }: HeldAttachment): string | undefined {
  return /^content ([0-9a-f]{64})$/mu.exec(description)?.[1];
}
