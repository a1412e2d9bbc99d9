/**
 * Tells the ERP what became of its requisitions: by files in a folder of their own, a row or a line for each, which the
 * reader imports and may then remove. They are written as batches are (batch-layout.ts), with a journal of their own, so a
 * repetition under the same key writes nothing, also when the reader has taken the file away.
 */
import {
  type Acknowledgement,
  acknowledgementCells,
  type ConnectorContext,
  type Outcome,
  outcomeOf,
} from 'sourcing-bridge/connector';
import { type BatchItem, createBatchWriter } from './batch-writer.ts';
import { type Folder, joinPath } from './folder.ts';
import { fillTemplate, timeInName } from './names.ts';
import type { AcknowledgeSettings, FileSettings } from './settings.ts';
import { csvOf, encodable } from './table.ts';

interface NewsItem extends BatchItem {
  readonly news: Acknowledgement;
}

const columns = Object.keys(acknowledgementCells);

/** Returns the session's `acknowledge`. */
export function createAcknowledge(
  folder: Folder,
  { journal, csv }: Pick<FileSettings, 'journal' | 'csv'>,
  settings: AcknowledgeSettings,
  context: ConnectorContext,
) {
  const writer = createBatchWriter<NewsItem>(folder, joinPath(journal, 'news'), context, {
    compose: async (items, { sequence, now }, write) => {
      const name = fillTemplate(settings.name, (placeholder) =>
        placeholder === 'sequence' ? String(sequence).padStart(8, '0') : timeInName(placeholder, now),
      );
      const path = joinPath(settings.folder, `${name}.${settings.format}`);
      const rows: { item: NewsItem; row: string[] }[] = [];
      const refused = new Map<NewsItem, Outcome>();
      for (const item of items)
        try {
          rows.push({ item, row: rowOf(item.news) });
        } catch (error) {
          refused.set(item, outcomeOf(error));
        }
      if (rows.length === 0) return { written: [], refused, files: [] };
      const parts = settings.format === 'csv' ? csvOf(csvRows(rows.map(({ row }) => row)), csv) : linesOf(rows);
      const file = await write(path, asAsync(parts), () => rows.length);
      const written = rows.map(({ item }) => ({
        item,
        write: { contentHash: '', state: item.news.status, idempotencyKey: item.idempotencyKey, reference: path },
      }));
      return { written, refused, files: [file] };
    },
    outcomeOf: ({ news }, when) => ({
      status: when === 'now' ? 'updated' : 'unchanged',
      reference: `${settings.folder}/${news.requisition}`,
    }),
  });

  /** Throws DataError for a character that the encoding does not have. */
  function rowOf(news: Acknowledgement): string[] {
    const where = (column: string) => () => `The news of requisition ${news.requisition}: column ${column}`;
    if (settings.format === 'jsonl') return [];
    return Object.entries(acknowledgementCells).map(([column, valueOf]) =>
      encodable(valueOf(news) ?? '', csv, where(column)),
    );
  }

  function* csvRows(rows: string[][]): Iterable<string[][]> {
    if (csv.header) yield [columns];
    yield rows;
  }

  return (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> =>
    folder.during(signal, () =>
      writer.write(
        given.map((news) => ({
          document: { kind: 'requisition-news', key: news.requisition },
          idempotencyKey: news.idempotencyKey,
          news,
        })),
        signal,
      ),
    );
}

function* linesOf(rows: readonly { readonly item: NewsItem }[]): Iterable<Uint8Array> {
  for (const { item } of rows) {
    const { idempotencyKey, ...news } = item.news;
    yield Buffer.from(`${JSON.stringify({ ...news, news_key: idempotencyKey })}\n`);
  }
}

async function* asAsync(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts;
}
