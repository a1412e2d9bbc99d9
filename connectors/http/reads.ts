/**
 * Reads suppliers or requisitions from a list of the ERP, page by page, as the settings describe. With `{since}` in the
 * path a read asks only for what has changed since some time before the last one began: by the ERP's clock or by this
 * one, whichever is earlier. Every later page is asked for below the base URL only: no answer can send the login elsewhere.
 */
import { createHash } from 'node:crypto';
import {
  type CheckResult,
  type Clock,
  compileJsonPath,
  compileOpen,
  compileRequisitionPlaces,
  compileSupplierPlaces,
  DataError,
  type Http,
  type HttpResponse,
  namedPlaces,
  parseCheckpoint,
  type ReadPage,
  type ReadStream,
  type RecordFault,
  type RecordOf,
  TransientError,
  z,
} from 'sourcing-bridge/connector';
import { exactNumbers, referenceText } from './answers.ts';
import { compilePages } from './pages.ts';
import type { ListSettings, OpenListSettings, ReadSettings } from './settings.ts';

const walkForm = z.object({ beganMs: z.number(), path: z.string(), pages: z.number() });
const checkpointForm = z.object({
  /** Which list it belongs to. */
  of: z.string(),
  /** What has changed since then is read; without it, everything. */
  sinceMs: z.number().optional(),
  /** A read that has not come to its end: when it began, its next page, and how many it has had. */
  walk: walkForm.optional(),
});
type Checkpoint = z.output<typeof checkpointForm>;

/** What an answer says when the page that a stored checkpoint asks for is not there any more. */
const goneStatuses = [400, 404, 410, 422];
const checkMs = 10_000;

interface ReadDeps {
  readonly http: Http;
  readonly baseUrl: string;
  readonly clock: Clock;
}

/** What a stream reads of its list. */
export interface ListRead<Stream extends ReadStream> {
  readonly stream: Stream;
  readonly settings: ListSettings;
  readonly toRecord: (entry: unknown, where: string) => { record: RecordOf<Stream> } | { fault: RecordFault };
}

export function supplierList(settings: NonNullable<ReadSettings['supplier']>): ListRead<'supplier'> {
  const { record } = settings;
  const named = new Set(namedPlaces(record));
  const toRecord = compileSupplierPlaces<unknown>(record, compileJsonPath, (entry) =>
    Object.fromEntries(
      Object.entries(typeof entry === 'object' && entry !== null ? entry : {}).filter(
        ([name, value]) => !named.has(name) && (typeof value !== 'object' || value === null),
      ),
    ),
  );
  return { stream: 'supplier', settings, toRecord };
}

export function requisitionList(settings: NonNullable<ReadSettings['requisition']>): ListRead<'requisition'> {
  const toRecord = compileRequisitionPlaces<unknown>(settings.record, compileJsonPath, compileJsonPath);
  return { stream: 'requisition', settings, toRecord };
}

/** The list of the requisitions that are open; undefined where the settings have none. */
export interface OpenList {
  readonly settings: OpenListSettings;
  readonly numberPath: string;
}

export function openListOf(settings: ReadSettings['requisition']): OpenList | undefined {
  const { open_list: list, record } = settings ?? {};
  return list && record && { settings: list, numberPath: list.reference_id ?? record.reference_id };
}

/** The reader of a list. Throws ConnectorErrors. */
export function createReader<Stream extends ReadStream>({ http, baseUrl, clock }: ReadDeps, source: ListRead<Stream>) {
  const { settings, stream } = source;
  const of = createHash('sha256')
    .update(JSON.stringify([settings.path, settings.next]))
    .digest('hex');
  const toPage = compilePage(source);

  async function* read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ReadPage<Stream>> {
    let at = checkpointOf(checkpoint, of);
    let isStored = at.walk !== undefined;
    const nextOf = compilePages(settings, baseUrl, `settings.read.${stream}`);
    for (;;) {
      const nowMs = clock.nowMs();
      const walk = at.walk ?? { beganMs: nowMs, path: pathSince(settings, at.sinceMs), pages: 0 };
      const accept = isStored ? goneStatuses : [];
      const response = await http.request({ method: 'GET', path: walk.path, accept, signal });
      if (isStored && goneStatuses.includes(response.status)) {
        isStored = false;
        at = { of, ...(at.sinceMs === undefined ? {} : { sinceMs: at.sinceMs }) };
        continue;
      }
      isStored = false;
      const beganMs = walk.pages === 0 ? Math.min(walk.beganMs, clockOf(response) ?? nowMs) : walk.beganMs;
      const { entries, page, answer } = toPage(response);
      const next = nextOf({ path: walk.path, pages: walk.pages + 1, entries: entries.length, answer, response });
      at =
        next === undefined
          ? { of, ...(settings.since ? { sinceMs: beganMs - settings.since.overlap_seconds * 1_000 } : {}) }
          : { ...at, walk: { beganMs, path: next, pages: walk.pages + 1 } };
      yield { ...page, checkpoint: JSON.stringify(at) };
      if (next === undefined) return;
    }
  }

  return read;
}

/**
 * The numbers of all requisitions that are open, page by page. An entry that cannot be read counts as open, under its
 * number. Throws ConnectorErrors, also for an entry without a number: what is open is not known then.
 */
export async function* openNumbers(
  { http, baseUrl }: Pick<ReadDeps, 'http' | 'baseUrl'>,
  { settings, numberPath }: OpenList,
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const setting = 'settings.read.requisition.open_list';
  const toEntries = compileEntries(settings);
  const nextOf = compilePages(settings, baseUrl, setting);
  const numberAt = compileJsonPath(numberPath);
  const isOpen = compileOpen<unknown>(settings, compileJsonPath);
  let pages = 0;
  for (let path: string | undefined = settings.path; path !== undefined; ) {
    const response = await http.request({ method: 'GET', path, signal });
    const { answer, entries } = toEntries(response);
    pages += 1;
    yield entries.flatMap((entry, index) => {
      if (!mayBeOpen(isOpen, entry)) return [];
      const number = referenceText(numberAt(entry))?.trim() ?? '';
      if (number === '')
        throw new TransientError(
          `GET ${path}, entry ${index + 1} of its page has no number at ${numberPath} (${setting}.reference_id): which requisitions are open is not known.`,
        );
      return [number];
    });
    path = nextOf({ path, pages, entries: entries.length, answer, response });
  }
}

function mayBeOpen(isOpen: (entry: unknown) => boolean, entry: unknown): boolean {
  try {
    return isOpen(entry);
  } catch (error) {
    if (error instanceof DataError) return true;
    throw error;
  }
}

/** Asks for the first page of what has changed just now. Never rejects. */
export async function checkRead<Stream extends ReadStream>(
  { http, clock }: ReadDeps,
  source: ListRead<Stream>,
): Promise<CheckResult> {
  const { settings, stream } = source;
  const name = `read ${settings.path}`;
  try {
    const path = pathSince(settings, clock.nowMs());
    const response = await http.request({ method: 'GET', path, signal: AbortSignal.timeout(checkMs) });
    const { entries, page } = compilePage(source)(response);
    const [fault] = page.faults;
    if (fault) return { name, ok: false, message: `${fault.where}: ${fault.why}.` };
    return { name, ok: true, message: `${settings.path} answers with a list of ${entries.length} ${stream}s.` };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

/** Asks for the first page of the list of open requisitions. Never rejects. */
export async function checkOpenList(deps: ReadDeps, list: OpenList): Promise<CheckResult> {
  const name = `list ${list.settings.path}`;
  try {
    const first = await openNumbers(deps, list, AbortSignal.timeout(checkMs)).next();
    const count = first.done === true ? 0 : first.value.length;
    return { name, ok: true, message: `${list.settings.path} answers with a list of ${count} open requisitions.` };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function checkpointOf(stored: string | undefined, of: string): Checkpoint {
  if (stored === undefined) return { of };
  const read = parseCheckpoint(stored, checkpointForm, 'http');
  return read.of === of ? read : { of };
}

function pathSince({ path, since }: ListSettings, sinceMs = 0): string {
  if (!since) return path;
  const date = new Date(sinceMs);
  const seconds = Math.floor(sinceMs / 1_000);
  const texts = {
    iso: `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`,
    date: date.toISOString().slice(0, 10),
    seconds: String(seconds),
    milliseconds: String(Math.floor(sinceMs)),
  };
  return path.replaceAll('{since}', encodeURIComponent(texts[since.format]));
}

/** The ERP's time, in whole seconds. */
function clockOf({ headers }: HttpResponse): number | undefined {
  const ms = Date.parse(headers['date'] ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

function compilePage<Stream extends ReadStream>({ settings, toRecord }: ListRead<Stream>) {
  const toEntries = compileEntries(settings);
  return (response: HttpResponse) => {
    const { answer, entries } = toEntries(response);
    const read = entries.map((entry, index) => toRecord(entry, `GET ${settings.path}, entry ${index + 1} of its page`));
    const records = read.flatMap((each) => ('record' in each ? [each.record] : []));
    const faults = read.flatMap((each) => ('fault' in each ? [each.fault] : []));
    return { answer, entries, page: { records, faults } };
  };
}

/** Compiles where the entries are in the answer of a list. The compiled function throws TransientError where they are not. */
function compileEntries({ list, path }: Pick<ListSettings, 'list' | 'path'>) {
  const listOf = list === undefined ? (answer: unknown) => answer : compileJsonPath(list);
  return (response: HttpResponse): { answer: unknown; entries: readonly unknown[] } => {
    const answer = exactNumbers(response);
    const entries = listOf(answer);
    if (!Array.isArray(entries))
      throw new TransientError(
        `the answer to GET ${path} has no list ${list === undefined ? 'as its whole body' : `at ${list}`}`,
      );
    return { answer, entries: entries as readonly unknown[] };
  };
}
