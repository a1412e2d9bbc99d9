/**
 * Reads suppliers or requisitions from a list of the ERP, page by page, as the settings describe. With `{since}` in the
 * path a read asks only for what has changed since some time before the last one began: by the ERP's clock or by this
 * one, whichever is earlier.
 */
import { createHash } from 'node:crypto';
import {
  type CheckResult,
  type Clock,
  compileJsonPath,
  compileMayBeOpen,
  compileRequisitionPlaces,
  compileSupplierPlaces,
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
import { type Asked, compileCount, compilePages, hiddenEntries, shortfallOf } from './pages.ts';
import type { ListSettings, OpenListSettings, PageSettings, ReadSettings } from './settings.ts';

const walkForm = z.object({
  beganMs: z.number(),
  path: z.string(),
  pages: z.number(),
  seen: z.number().default(0),
  total: z.number().optional(),
});
const checkpointForm = z.object({
  /** Which list it belongs to. */
  of: z.string(),
  /** What has changed since then is read; without it, everything. */
  sinceMs: z.number().optional(),
  /** A read that has not come to its end: when it began, its next page, and how many pages and entries it has had. */
  walk: walkForm.optional(),
});
type Checkpoint = z.output<typeof checkpointForm>;

/** What an answer says when the page that a stored checkpoint asks for is not there any more. */
const goneStatuses = [400, 404, 410, 422];
const checkMs = 10_000;

interface ReadDeps {
  readonly http: Http;
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
export function createReader<Stream extends ReadStream>({ http, clock }: ReadDeps, source: ListRead<Stream>) {
  const { settings, stream } = source;
  const of = createHash('sha256')
    .update(JSON.stringify([settings.path, settings.next]))
    .digest('hex');
  const toPage = compilePage(source);
  const setting = `settings.read.${stream}`;
  const count = compileCount(settings);

  async function* read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ReadPage<Stream>> {
    let at = checkpointOf(checkpoint, of);
    let isStored = at.walk !== undefined;
    const nextOf = compilePages(settings, setting);
    for (;;) {
      const nowMs = clock.nowMs();
      const walk = at.walk ?? { beganMs: nowMs, path: pathSince(settings, at.sinceMs), pages: 0, seen: 0 };
      const accept = isStored ? goneStatuses : [];
      const response = await http.request({ method: 'GET', path: walk.path, accept, signal });
      if (isStored && goneStatuses.includes(response.status)) {
        isStored = false;
        at = beginningOf(at);
        continue;
      }
      isStored = false;
      const beganMs = walk.pages === 0 ? Math.min(walk.beganMs, clockOf(response) ?? nowMs) : walk.beganMs;
      const { entries, page, answer } = toPage(response);
      const asked = { path: walk.path, pages: walk.pages + 1, entries, answer, response };
      const next = nextOf(asked);
      const counted = count(walk, asked);
      const missing = next === undefined ? shortfallOf(counted, asked.pages, settings.path, setting) : undefined;
      if (missing) at = beginningOf(at);
      else if (next !== undefined) at = { ...at, walk: { beganMs, path: next, pages: asked.pages, ...counted } };
      else at = { of, ...(settings.since ? { sinceMs: beganMs - settings.since.overlap_seconds * 1_000 } : {}) };
      yield { ...page, checkpoint: JSON.stringify(at) };
      if (missing) throw missing;
      if (next === undefined) return;
    }
  }

  return read;
}

const openListSetting = 'settings.read.requisition.open_list';

/**
 * The numbers of all requisitions that are open, page by page. An entry that cannot be read counts as open, under its
 * number. Throws ConnectorErrors, also for an entry without a number: what is open is not known then.
 */
export async function* openNumbers(
  { http }: Pick<ReadDeps, 'http'>,
  { settings, numberPath }: OpenList,
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const setting = openListSetting;
  const toEntries = compileEntries(settings);
  const nextOf = compilePages(settings, setting);
  const count = compileCount(settings);
  const numberAt = compileJsonPath(numberPath);
  const mayBeOpen = compileMayBeOpen<unknown>(settings, compileJsonPath);
  let pages = 0;
  let counted = { seen: 0 };
  for (let path: string | undefined = settings.path; path !== undefined; ) {
    const response = await http.request({ method: 'GET', path, signal });
    const { answer, entries } = toEntries(response);
    pages += 1;
    yield entries.flatMap((entry, index) => {
      if (!mayBeOpen(entry)) return [];
      const number = referenceText(numberAt(entry))?.trim() ?? '';
      if (number === '')
        throw new TransientError(
          `GET ${path}, entry ${index + 1} of its page has no number at ${numberPath} (${setting}.reference_id): which requisitions are open is not known.`,
        );
      return [number];
    });
    const asked: Asked = { path, pages, entries, answer, response };
    path = nextOf(asked);
    counted = count(counted, asked);
    const missing = path === undefined ? shortfallOf(counted, pages, settings.path, setting) : undefined;
    if (missing) throw missing;
  }
}

/** Asks for the first page of what has changed just now. Never rejects. */
export async function checkRead<Stream extends ReadStream>(
  { http, clock }: ReadDeps,
  source: ListRead<Stream>,
): Promise<CheckResult> {
  const { settings, stream } = source;
  return checked(`read ${settings.path}`, async () => {
    const path = pathSince(settings, clock.nowMs());
    const response = await http.request({ method: 'GET', path, signal: AbortSignal.timeout(checkMs) });
    const { entries, page, answer } = compilePage(source)(response);
    const [fault] = page.faults;
    if (fault) return { ok: false, message: `${fault.where}: ${fault.why}.` };
    const pages = pagesFound({ path, pages: 1, entries, answer, response }, settings, `settings.read.${stream}`);
    return {
      ok: pages.ok,
      message: `${settings.path} answers with a list of ${entries.length} ${stream}s${pages.text}.`,
    };
  });
}

/** Asks for the first page of the list of open requisitions. Never rejects. */
export async function checkOpenList({ http }: ReadDeps, { settings }: OpenList): Promise<CheckResult> {
  const { path } = settings;
  return checked(`list ${path}`, async () => {
    const response = await http.request({ method: 'GET', path, signal: AbortSignal.timeout(checkMs) });
    const { entries, answer } = compileEntries(settings)(response);
    const pages = pagesFound({ path, pages: 1, entries, answer, response }, settings, openListSetting);
    return { ok: pages.ok, message: `${path} answers with a list of ${entries.length} requisitions${pages.text}.` };
  });
}

async function checked(name: string, run: () => Promise<Omit<CheckResult, 'name'>>): Promise<CheckResult> {
  try {
    return { name, ...(await run()) };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

/** Says of a first page without a next one whether the answer says that there is more. */
function pagesFound(asked: Asked, settings: PageSettings, setting: string): { ok: boolean; text: string } {
  if (compilePages(settings, setting)(asked) !== undefined) return { ok: true, text: '' };
  const hidden = hiddenEntries(settings, asked);
  if (hidden === undefined) return { ok: true, text: settings.next === undefined ? '' : ': 1 page, no next found' };
  return { ok: false, text: `: 1 page, no next found, ${hidden}. Set ${setting}.next to where the next page is named` };
}

/** The beginning of the read that is at this checkpoint. */
function beginningOf({ of, sinceMs }: Checkpoint): Checkpoint {
  return { of, ...(sinceMs === undefined ? {} : { sinceMs }) };
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
