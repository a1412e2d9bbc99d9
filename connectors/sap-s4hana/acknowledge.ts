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
import { type Deps, referenceOf } from './kind.ts';
import { ChangedSinceRead } from './messages.ts';
import { anyOf, entityPath, expanded, metadataForm, textOrEmpty } from './odata.ts';
import { requisitionService } from './reads.ts';

/** The object of SAP whose texts those of a requisition's item are. */
const textObject = 'EBAN';
const textSet = 'A_PurchaseReqnItemText';
const beginning = '[Sourcing bridge] ';
const end = /^\[news ([^\s\]]+)\]\s*$/u;
const perRequest = 20;

const itemForm = z.object({
  PurchaseRequisition: z.string(),
  PurchaseRequisitionItem: z.string(),
  IsDeleted: textOrEmpty,
  to_PurchaseReqnItemText: expanded(
    z.object({
      DocumentText: z.string(),
      TechnicalObjectType: z.string(),
      Language: z.string(),
      NoteDescription: textOrEmpty,
      __metadata: metadataForm,
    }),
  ),
});
type Item = z.output<typeof itemForm>;

/** Returns the session's `acknowledge`. */
export function createAcknowledge({ odata, settings, log }: Deps) {
  const { requisition_text_type: type, language, connections } = settings;

  async function itemsOf(numbers: readonly string[], signal: AbortSignal): Promise<Item[]> {
    const items: Item[] = [];
    for (let start = 0; start < numbers.length; start += perRequest) {
      const filter = anyOf('PurchaseRequisition', numbers.slice(start, start + perRequest));
      const query = { filter, expand: ['to_PurchaseReqnItemText'] };
      items.push(...(await odata.list(requisitionService, 'A_PurchaseRequisitionItem', itemForm, query, signal)));
    }
    return items;
  }

  const noteOf = (item: Item) =>
    item.to_PurchaseReqnItemText.find(
      (text) => text.DocumentText === type && text.TechnicalObjectType === textObject && text.Language === language,
    );

  /** Returns whether it has written anything. */
  async function showOnItem(item: Item, news: Acknowledgement, signal: AbortSignal): Promise<boolean> {
    const { PurchaseRequisition, PurchaseRequisitionItem } = item;
    const key = { PurchaseRequisition, PurchaseRequisitionItem };
    const note = noteOf(item);
    const { own, keys } = partsOf(note?.NoteDescription ?? '');
    if (keys.length === 1 && keys[0] === news.idempotencyKey) return false;
    const shown = `${beginning}${news.text.replaceAll(/\s+/gu, ' ')}\n[news ${news.idempotencyKey}]`;
    const NoteDescription = own === '' ? shown : `${own}\n${shown}`;
    const noteKey = { DocumentText: type, TechnicalObjectType: textObject, Language: language };
    if (note) {
      const path = entityPath(textSet, { ...key, ...noteKey });
      await odata.patch(requisitionService, path, { NoteDescription }, note.__metadata?.etag, signal);
    } else {
      const path = `${entityPath('A_PurchaseRequisitionItem', key)}/to_PurchaseReqnItemText`;
      await odata.post(requisitionService, path, { ...key, ...noteKey, NoteDescription }, signal);
    }
    return true;
  }

  /** Reads the item again, once, where its text has become another one since it was read, or was made since. */
  async function showOnItemAsItIs(item: Item, news: Acknowledgement, signal: AbortSignal): Promise<boolean> {
    try {
      return await showOnItem(item, news, signal);
    } catch (error) {
      const mayExistNow = error instanceof DataError && noteOf(item) === undefined;
      if (!(error instanceof ChangedSinceRead) && !mayExistNow) throw error;
      const now = (await itemsOf([item.PurchaseRequisition], signal)).find(
        ({ PurchaseRequisitionItem }) => PurchaseRequisitionItem === item.PurchaseRequisitionItem,
      );
      if (!now || (mayExistNow && !noteOf(now))) throw error;
      return showOnItem(now, news, signal);
    }
  }

  async function show(items: readonly Item[], news: Acknowledgement, signal: AbortSignal): Promise<Outcome> {
    if (items.length === 0) throw new DataError(`SAP has no purchase requisition ${news.requisition}.`);
    const reference = referenceOf('PurchaseRequisition', news.requisition);
    const kept = items.filter(({ IsDeleted }) => IsDeleted === '');
    // SAP changes no deleted item, and shows the deletion: that must not make a dead letter of each withdrawal.
    if (kept.length === 0)
      log.info('nothing was written to a requisition that is deleted in SAP', { requisition: news.requisition });
    let isChanged = false;
    // One after the other: SAP locks the requisition as a whole.
    for (const item of kept) {
      if (signal.aborted) throw new TransientError(`stopped before item ${item.PurchaseRequisitionItem} was told`);
      isChanged = (await showOnItemAsItIs(item, news, signal)) || isChanged;
    }
    return { status: isChanged ? 'updated' : 'unchanged', reference };
  }

  return async (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> => {
    const numbers = given.map(({ requisition }) => requisition);
    let items: Item[];
    try {
      items = await itemsOf(numbers, signal);
    } catch (error) {
      // Nothing was sent but questions.
      return given.map(() => outcomeOf(error));
    }
    const itemsWith = (number: string) => items.filter(({ PurchaseRequisition }) => PurchaseRequisition === number);
    return writeEach(given, (news) => show(itemsWith(news.requisition), news, signal), { signal, atOnce: connections });
  };
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
