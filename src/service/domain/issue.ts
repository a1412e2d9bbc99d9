/** One thing wrong with what was sent: `path` like `bid_sheet.columns[2].precision`. */
export interface Issue {
  path: string;
  message: string;
}
