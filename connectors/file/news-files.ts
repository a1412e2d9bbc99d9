/**
 * Tells the ERP what became of its requisitions: by files in a folder of their own, a row or a line for each, which the
 * reader imports and may then remove. They are written as batches are, with receipts of their own, so a repetition under
 * the same key writes nothing, also when the reader has taken the file away.
 */
import {
  type Acknowledgement,
  acknowledgementCells,
  type ConnectorContext,
  type Outcome,
  outcomeOf,
} from 'sourcing-bridge/connector';
import { type BatchItem, createBatchWriter, receiptsFolder } from './batch-writer.ts';
import { type Deadline, type Folder, joinPath } from './folder.ts';
import { batchName } from './names.ts';
import { type FileSettings, newsFolder } from './settings.ts';
import { csvOf, encodable } from './table.ts';

interface NewsItem extends BatchItem {
  readonly news: Acknowledgement;
}

/** Returns the session's `acknowledge`. */
export function createAcknowledge(
  folder: Folder,
  { format, csv }: Pick<FileSettings, 'format' | 'csv'>,
  context: ConnectorContext,
) {
  /** Throws DataError for a character that the encoding does not have. */
  function rowOf(news: Acknowledgement): string[] {
    return Object.entries(acknowledgementCells).map(([column, valueOf]) =>
      encodable(valueOf(news) ?? '', csv, () => `The news of requisition ${news.requisition}: column ${column}`),
    );
  }

  function contentOf(items: readonly NewsItem[]): Uint8Array {
    if (format === 'csv') {
      const header = csv.header ? [Object.keys(acknowledgementCells)] : [];
      return csvOf([...header, ...items.map(({ news }) => rowOf(news))], csv);
    }
    const lines = items.map(({ news: { idempotencyKey, ...news } }) => ({ ...news, news_key: idempotencyKey }));
    return Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }

  const writer = createBatchWriter<NewsItem>(folder, joinPath(receiptsFolder, 'news'), context, {
    compose: async (items, id) => {
      const refused = new Map<NewsItem, Outcome>();
      for (const item of format === 'csv' ? items : [])
        try {
          rowOf(item.news);
        } catch (error) {
          refused.set(item, outcomeOf(error));
        }
      const taken = items.filter((item) => !refused.has(item));
      const name = joinPath(newsFolder, `${batchName('news', id)}.${format}`);
      const written = taken.map((item) => ({ item, contentHash: '', state: item.news.status }));
      return { written, refused, files: [{ name, content: contentOf(taken) }] };
    },
    outcomeOf: ({ news }, when) => ({
      status: when === 'now' ? 'updated' : 'unchanged',
      reference: `${newsFolder}/${news.requisition}`,
    }),
  });

  return (given: readonly Acknowledgement[], signal: AbortSignal, deadline: Deadline): Promise<Outcome[]> => {
    const items = given.map((news) => ({
      document: { kind: 'requisition-news', key: news.requisition },
      idempotencyKey: news.idempotencyKey,
      news,
    }));
    return writer.write(items, signal, deadline);
  };
}
