/**
 * The quirks of `service --misbehave` as tables in Markdown. `npm run docs:misbehave` writes them into
 * `docs/misbehave.md`, between two marks.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { calmedGroups, type Quirk, quirkGroups, quirkTable } from '#service/misbehave/quirk-table.ts';

export const quirkListPath = 'docs/misbehave.md';

const path = join(import.meta.dirname, '../..', quirkListPath);
const [begin, end] = ['<!-- made by npm run docs:misbehave -->', '<!-- end -->'];

/** The whole file, with its tables as they should be. Throws when a mark is missing. */
export function renderQuirkList(text: string): string {
  const [before, rest] = [text.indexOf(begin), text.indexOf(end)];
  if (before === -1 || rest < before) throw new Error(`${quirkListPath} lacks the marks ${begin} and ${end}.`);
  return `${text.slice(0, before + begin.length)}\n\n${quirkGroups.map(tableOf).join('\n')}\n${text.slice(rest)}`;
}

function tableOf(group: (typeof quirkGroups)[number]): string {
  const rows = quirkTable.filter((quirk) => quirk.group === group).map(rowOf);
  const calms = calmedGroups.includes(group) ? ' (stops when calm)' : '';
  return `### ${group}${calms}\n\n| Quirk | What it does | What an obvious client loses |\n|---|---|---|\n${rows.join('')}`;
}

function rowOf({ name, parameter, does, loses }: Quirk): string {
  const shown = parameter ? `\`${name}=${parameter.fallback}\`<br>${parameter.what}` : `\`${name}\``;
  return `| ${shown} | ${does} | ${loses} |\n`;
}

if (import.meta.main) writeFileSync(path, renderQuirkList(readFileSync(path, 'utf8')));
