/** The files for spreadsheets: what a spreadsheet would run is a text there. */
import { expect, test } from 'vitest';
import { csvOf } from '#console/web/state/csv.ts';

const cell = (text: string | null) => csvOf([['value', 'Value']], [{ value: text }]).split('\r\n')[1];

test.each([
  ['=1+1', "'=1+1"],
  ['+49 40 1234', "'+49 40 1234"],
  ['-2+3', "'-2+3"],
  ['@SUM(A1)', "'@SUM(A1)"],
  ['\t=1', "'\t=1"],
  ['-12.50', '-12.50'],
  ['12.50', '12.50'],
  ['Meyer, Söhne & "Co"', '"Meyer, Söhne & ""Co"""'],
  ['two\nlines', '"two\nlines"'],
  ['Meyer;=1+1;x', "Meyer;'=1+1;x"],
  ['Meyer\n@SUM(A1)', `"Meyer\n'@SUM(A1)"`],
  ['Meyer; Söhne; -2', 'Meyer; Söhne; -2'],
  [null, ''],
])('the cell %j is written as %j', (text, written) => {
  expect(cell(text)).toBe(written);
});
