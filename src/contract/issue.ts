/** One fault of a body, a query or a file. `path` is like `bid_sheet.columns[2].precision`, empty for the whole. */
export interface Issue {
  path: string;
  message: string;
}

/** The most faults that an answer names. Checks of large input stop when they have found as many. */
export const issuesMax = 100;
