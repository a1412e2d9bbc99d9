/** One fault of a body, a query or a file. `path` is like `bid_sheet.columns[2].precision`, empty for the whole. */
export interface Issue {
  path: string;
  message: string;
}
