/**
 * Shows on a purchase requisition what became of it: in a text of each of its items (`requisition_text_type`), as the
 * service has no text of the whole requisition. What a person wrote in the same text stays; the news before is replaced.
 *
 *     Please call before delivery.                            a person's
 *     [Sourcing bridge] The event "Steel" (…) is published    the news
 *     [news 0f8c…]                                            its key, by which a repetition finds it and writes nothing
 */
import {
  type Acknowledgement,
  DataError,
  type Outcome,
  outcomeOf,
  TransientError,
  writeEach,
  z,
} from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import { type Deps, referenceOf } from './kind.ts';
import { ChangedSinceRead } from './messages.ts';
import { equals, expanded, textOrEmpty } from './odata.ts';
import { requisitionService, requisitionText } from './reads.ts';
import { isSameCode } from './sap-values.ts';

/** The object of SAP whose texts those of a requisition's item are. */
const textObject = 'EBAN';
const textSet = 'A_PurchaseReqnItemText';
const beginning = '[Sourcing bridge] ';
const end = /^\[news ([^\s\]]+)\]\s*$/u;

const itemForm = z.object({
  PurchaseRequisition: z.string(),
  PurchaseRequisitionItem: z.string(),
  IsDeleted: textOrEmpty,
  to_PurchaseReqnItemText: expanded(requisitionText),
});
type Item = z.output<typeof itemForm>;

/** Returns the session's `acknowledge`. */
export function createAcknowledge(deps: Deps) {
  return async (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> => {
    const numbers = given.map(({ requisition }) => requisition);
    let items: Item[];
    try {
      items = await itemsOf(deps, numbers, signal);
    } catch (error) {
      // Nothing was sent but questions.
      return given.map(() => outcomeOf(error));
    }
    const itemsWith = (number: string) =>
      items.filter(({ PurchaseRequisition }) => isSameCode(PurchaseRequisition, number));
    return writeEach(given, (news) => show(deps, itemsWith(news.requisition), news, signal), {
      signal,
      atOnce: deps.settings.connections,
    });
  };
}

async function itemsOf({ odata }: Deps, numbers: readonly string[], signal: AbortSignal): Promise<Item[]> {
  const filters = equals('PurchaseRequisition', numbers);
  const query = { expand: ['to_PurchaseReqnItemText'] };
  return odata.listAny(requisitionService, 'A_PurchaseRequisitionItem', itemForm, filters, query, signal);
}

function noteOf({ settings }: Deps, item: Item) {
  const { requisition_text_type: type, language } = settings;
  return item.to_PurchaseReqnItemText.find(
    (text) => text.DocumentText === type && text.TechnicalObjectType === textObject && text.Language === language,
  );
}

/** Returns whether it has written anything. */
async function showOnItem(deps: Deps, item: Item, news: Acknowledgement, signal: AbortSignal): Promise<boolean> {
  const { requisition_text_type: type, language } = deps.settings;
  const { PurchaseRequisition, PurchaseRequisitionItem } = item;
  const key = { PurchaseRequisition, PurchaseRequisitionItem };
  const note = noteOf(deps, item);
  const { own, keys } = partsOf(note?.NoteDescription ?? '');
  if (keys.length === 1 && keys[0] === news.idempotencyKey) return false;
  const shown = `${beginning}${news.text.replaceAll(/\s+/gu, ' ')}\n[news ${news.idempotencyKey}]`;
  const NoteDescription = own === '' ? shown : `${own}\n${shown}`;
  const noteKey = { DocumentText: type, TechnicalObjectType: textObject, Language: language };
  const change: Change = note
    ? {
        what: 'change',
        method: 'PATCH',
        set: textSet,
        key: { ...key, ...noteKey },
        body: { NoteDescription },
        etag: note.__metadata?.etag,
      }
    : {
        what: 'add',
        method: 'POST',
        set: 'A_PurchaseRequisitionItem',
        key,
        navigation: 'to_PurchaseReqnItemText',
        body: { ...key, ...noteKey, NoteDescription },
      };
  await deps.odata.change(requisitionService, change, signal);
  return true;
}

/** Reads the item again, once, where its text has become another one since it was read, or was made since. */
async function showOnItemAsItIs(deps: Deps, item: Item, news: Acknowledgement, signal: AbortSignal): Promise<boolean> {
  try {
    return await showOnItem(deps, item, news, signal);
  } catch (error) {
    const mayExistNow = error instanceof DataError && noteOf(deps, item) === undefined;
    if (!(error instanceof ChangedSinceRead) && !mayExistNow) throw error;
    const now = (await itemsOf(deps, [item.PurchaseRequisition], signal)).find(
      ({ PurchaseRequisitionItem }) => PurchaseRequisitionItem === item.PurchaseRequisitionItem,
    );
    if (!now || (mayExistNow && !noteOf(deps, now))) throw error;
    return showOnItem(deps, now, news, signal);
  }
}

async function show(deps: Deps, items: readonly Item[], news: Acknowledgement, signal: AbortSignal): Promise<Outcome> {
  if (items.length === 0) throw new DataError(`SAP has no purchase requisition ${news.requisition}.`);
  const reference = referenceOf('PurchaseRequisition', news.requisition);
  const kept = items.filter(({ IsDeleted }) => IsDeleted === '');
  // SAP changes no deleted item, and shows the deletion: that must not make a dead letter of each withdrawal.
  if (kept.length === 0)
    deps.log.info('nothing was written to a requisition that is deleted in SAP', { requisition: news.requisition });
  let isChanged = false;
  // One after the other: SAP locks the requisition as a whole.
  for (const item of kept) {
    if (signal.aborted) throw new TransientError(`stopped before item ${item.PurchaseRequisitionItem} was told`);
    isChanged = (await showOnItemAsItIs(deps, item, news, signal)) || isChanged;
  }
  return { status: isChanged ? 'updated' : 'unchanged', reference };
}

/** What a person wrote, and the keys of the news in the text. Lines in between may be broken as SAP likes. */
function partsOf(text: string): { own: string; keys: string[] } {
  const lines = text.split(/\r?\n/u);
  const own: string[] = [];
  const keys: string[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] as string;
    const length = line.startsWith(beginning) ? lengthOfNews(lines.slice(at + 1)) : undefined;
    if (length === undefined) {
      own.push(line);
      continue;
    }
    at += length;
    keys.push(end.exec(lines[at] as string)?.[1] as string);
  }
  return { own: own.join('\n').trimEnd(), keys };
}

/** How many lines the news has after its first one; undefined where its end is missing. */
function lengthOfNews(after: readonly string[]): number | undefined {
  const next = after.findIndex((line) => line.startsWith(beginning));
  const last = after.findIndex((line) => end.test(line));
  return last < 0 || (next >= 0 && next < last) ? undefined : last + 1;
}
