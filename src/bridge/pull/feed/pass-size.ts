/** The page sizes of passes over the same records: a record that lies at a boundary of pages does not stay at one. */

/** Some services refuse shorter pages. */
export const shortestPage = 10;

/** The shares of a page that the passes ask for, in turns. */
const pageShares = [1, 0.9, 0.7, 0.8, 0.6] as const;

/** How many records a pass asks for at once; `pass` counts from 0. */
export function sizeOfPass(pageSize: number, pass: number): number {
  const share = pageShares[pass % pageShares.length] ?? 1;
  return Math.max(Math.min(pageSize, shortestPage), Math.floor(pageSize * share));
}
