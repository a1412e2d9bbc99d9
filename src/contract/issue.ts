/** One thing wrong with a body, a query or a file: `path` like `bid_sheet.columns[2].precision`, empty for the whole. */
export interface Issue {
  path: string;
  message: string;
}
