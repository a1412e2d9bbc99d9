/**
 * Reads a connector's stream page by page. A connector may come from anyone and be plain JavaScript: each page has a
 * time limit, each record is checked, and a page of unbounded size ends the read.
 */
import { z } from 'zod';
import type { Session } from '#connector/connector.ts';
import { ConnectorError } from '#connector/errors.ts';
import { type ReadStream, type RecordOf, recordSchemas } from '#connector/records.ts';
import { isStorable, storableText } from '#platform/database/storable-text.ts';
import { errorText } from '#platform/errors.ts';
import { rawIssuesOf } from '#platform/input.ts';

/** A record that cannot be read: the reason, and the ERP's number where it has one. */
export interface BadRecord {
  readonly erpKey: string | undefined;
  readonly why: string;
  readonly body: unknown;
}

/** The ERP's number of a record. */
export function erpKeyOf(record: RecordOf<ReadStream>): string {
  return 'external_id' in record ? record.external_id : record.reference_id;
}

export interface ErpPage {
  readonly records: readonly RecordOf<ReadStream>[];
  readonly bad: readonly BadRecord[];
  readonly checkpoint: string;
}

/** Why a read ended before its end, and what has to happen next. */
export class ReadFailed extends Error {
  /** `auth` and `config`: nothing will work until a person acts. */
  readonly type: 'transient' | 'auth' | 'config';
  readonly retryAfterMs: number | undefined;

  constructor(type: ReadFailed['type'], message: string, retryAfterMs?: number) {
    super(message);
    this.type = type;
    this.retryAfterMs = retryAfterMs;
  }
}

export interface ErpReader {
  /** Pages since the checkpoint (undefined: everything), until the end. Throws ReadFailed. */
  read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ErpPage>;
  /** The numbers of all requisitions that are open; undefined where the connector does not list them. Throws ReadFailed. */
  readonly listOpen: ((signal: AbortSignal) => Promise<ReadonlySet<string>>) | undefined;
}

/** A connector that reads answers a page of a few hundred records; a larger one would fill the memory. */
const pageRecordsMax = 20_000;
const checkpointLengthMax = 1_000_000;
/** More open requisitions than any company has. */
const openMost = 1_000_000;
const abortGraceMs = 5_000;

/** `redact` is applied to each text of the connector, so that it may be stored and shown. */
export function createErpReader(
  session: Session,
  stream: ReadStream,
  { pageMs, redact, listsOpen = false }: { pageMs: number; redact: (text: string) => string; listsOpen?: boolean },
): ErpReader {
  /** The results of `open` until its end; a connector that does not end must not hold the bridge. Throws ReadFailed. */
  async function* resultsOf(open: (signal: AbortSignal) => AsyncIterable<unknown>, signal: AbortSignal) {
    const stop = new AbortController();
    let pages: AsyncIterator<unknown> | undefined;
    try {
      pages = open(AbortSignal.any([signal, stop.signal]))[Symbol.asyncIterator]();
      for (;;) {
        const result = await within(pageMs, pages.next(), signal);
        if (result.done === true) return;
        yield result.value;
      }
    } catch (error) {
      throw failureOf(error, redact);
    } finally {
      stop.abort(new Error('the read has ended'));
      const ended = Promise.resolve(pages?.return?.()).catch(() => undefined);
      await within(abortGraceMs, ended).catch(() => undefined);
    }
  }

  return {
    async *read(checkpoint, signal) {
      const open = (given: AbortSignal) => {
        if (!session.read) throw new ReadFailed('config', 'the connector reads nothing');
        return session.read(stream, checkpoint, given);
      };
      for await (const value of resultsOf(open, signal)) yield pageOf(value, stream);
    },
    listOpen:
      stream === 'requisition' && listsOpen
        ? async (signal) => {
            const open = new Set<string>();
            const list = (given: AbortSignal) => {
              if (!session.openRequisitions)
                throw new ReadFailed('config', 'the connector does not list open requisitions');
              return session.openRequisitions(given);
            };
            for await (const value of resultsOf(list, signal)) {
              const page = openPageForm.safeParse(value);
              if (!page.success || open.size > openMost)
                throw new ReadFailed(
                  'transient',
                  'the connector returned a list of open requisitions that cannot be read',
                );
              for (const number of page.data) open.add(number);
            }
            return open;
          }
        : undefined,
  };
}

const openPageForm = z.array(z.string().max(255)).max(pageRecordsMax);

function pageOf(value: unknown, stream: ReadStream): ErpPage {
  const page = pageForm.safeParse(value);
  if (!page.success) throw new ReadFailed('transient', 'the connector returned a page that cannot be read');
  const records: RecordOf<ReadStream>[] = [];
  const bad: BadRecord[] = [];
  for (const record of page.data.records) {
    const read = recordSchemas[stream].safeParse(record);
    const hasZero = read.success && JSON.stringify(read.data).includes('\\u0000');
    if (read.success && !hasZero) records.push(read.data);
    else
      bad.push({
        erpKey: keyForm[stream].safeParse(record).data,
        why: hasZero ? 'it has a zero character' : faultOf(read.error),
        body: record,
      });
  }
  for (const { where, key, why } of page.data.faults) {
    const erpKey = keyText.safeParse(key).data;
    bad.push({ erpKey, why: storableText(`${where}: ${why}`), body: { where } });
  }
  return { records, bad, checkpoint: page.data.checkpoint };
}

const pageForm = z.object({
  records: z.array(z.unknown()).max(pageRecordsMax),
  faults: z
    .array(z.object({ where: z.string().max(1_000), key: z.string().nullish(), why: z.string().max(10_000) }))
    .max(pageRecordsMax)
    .default([]),
  checkpoint: z
    .string()
    .max(checkpointLengthMax)
    .refine((text) => !text.includes('\0')),
});

const keyText = z.string().min(1).max(255).refine(isStorable);

/** Reads the number of a record that cannot be read otherwise. */
const keyForm: Readonly<Record<ReadStream, z.ZodType<string>>> = {
  supplier: z.object({ external_id: keyText }).transform((record) => record.external_id),
  requisition: z.object({ reference_id: keyText }).transform((record) => record.reference_id),
};

/** Names the member, never a value of it. */
function faultOf(error: z.ZodError | undefined): string {
  const [issue] = rawIssuesOf(error?.issues ?? []);
  return issue === undefined ? 'it cannot be read' : [...issue.path, issue.message].join(' ');
}

function failureOf(error: unknown, redact: (text: string) => string): ReadFailed {
  if (error instanceof ReadFailed) return error;
  const message = redact(errorText(error));
  if (error instanceof ConnectorError) {
    if (error.type === 'auth' || error.type === 'config') return new ReadFailed(error.type, message);
    const retryAfterMs = 'retryAfterMs' in error ? (error.retryAfterMs as number | undefined) : undefined;
    return new ReadFailed('transient', message, retryAfterMs);
  }
  return new ReadFailed('transient', message);
}

/** Rejects when `promise` has not settled after `ms`, or when the signal aborts; its late answer is dropped. */
async function within<T>(ms: number, promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`the ERP sent no page within ${Math.ceil(ms / 1000)} s`)), ms);
  const onAbort = () => reject(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  // The late rejection of a read that was given up is nobody's business.
  promise.catch(() => undefined);
  try {
    return await Promise.race([promise, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}
