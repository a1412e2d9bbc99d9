/**
 * Every command that a page or an example configuration shows exists, with the options that it uses: whole ones
 * (`npx sourcing-bridge …`, after `$` in a transcript) and those that a sentence names, like `bridge status`. Pages show
 * the commands of an installation; those of the repository are named where a guide begins.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { createProgram } from '#cli/program.ts';

const root = join(import.meta.dirname, '../..');
const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md', '*.yaml'], {
  cwd: root,
  encoding: 'utf8',
});
const files = listed.split('\n').filter((path) => /^(README|docs|connectors|config|docker)/.test(path));
const pages = files
  .filter((path) => existsSync(join(root, path)))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

/** The words after `npx sourcing-bridge`, up to the end of the command. */
function commandsIn(text: string): string[][] {
  const whole = text.replaceAll(/\\\n\s*/g, ' ');
  return [...whole.matchAll(/npx sourcing-bridge(?! "\$@")(?: ([^`\n#|;&<>()]*))?/g)].map(([, rest = '']) => {
    const words = rest.split(/\s+/).filter(Boolean);
    // A sentence ends with its full stop; what follows is another.
    const last = words.findIndex((word) => /[.,:]$/.test(word));
    return (last < 0 ? words : words.slice(0, last + 1)).map((word) => word.replaceAll(/[[\]]|[.,:]$/g, ''));
  });
}

/**
 * The commands after `$` in a transcript, and the code spans of sentences that begin with a noun of the program; neither
 * its line "bridge ready" nor an export of JavaScript.
 */
function namedCommandsIn(text: string): string[][] {
  const nouns = createProgram().commands.flatMap((command) => (command.commands.length > 0 ? [command.name()] : []));
  const transcripts = [...text.matchAll(/^\$ (?!npx )(.+)$/gm)].map(([, line = '']) => line);
  const spans = [...text.matchAll(/`([a-z-]+ [a-z][^`\n]*)`/g)].map(([, span = '']) => span);
  return [...transcripts, ...spans]
    .map((line) => line.replaceAll(/"[^"]*"/g, 'text').split(/\s+/))
    .filter(([noun = '', next = '']) => nouns.includes(noun) && /^(?!(?:ready|const)$)[a-z-]+$/.test(next));
}

/** What is wrong with a command line; undefined for one that the program takes. */
function faultOf(words: readonly string[]): string | undefined {
  let command: Command = createProgram();
  let rest = [...words];
  for (;;) {
    const next = command.commands.find((each) => each.name() === rest[0]);
    if (!next) break;
    command = next;
    rest = rest.slice(1);
  }
  const [argument] = rest;
  const takesArgument = command.registeredArguments.length > 0 || argument === '…';
  if (argument !== undefined && !argument.startsWith('-') && !takesArgument) return `no command ${argument}`;
  const known = ['--help', ...command.options.flatMap(({ long }) => long ?? [])];
  const used = rest.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? '');
  const fault = used.find((option) => !known.includes(option));
  return fault === undefined ? undefined : `no option ${fault}`;
}

const shown = pages.flatMap(({ path, text }) =>
  [...commandsIn(text), ...namedCommandsIn(text)].map((words) => ({ path, words })),
);

test('pages show commands, and a wrong command or option is found', () => {
  expect(shown.length).toBeGreaterThan(100);
  expect(commandsIn('`npx sourcing-bridge bridge status`, and')).toEqual([['bridge', 'status']]);
  expect(
    namedCommandsIn('see `bridge lag --max 9` and `bridge.port`\n```\n$ audit-log x\n$ bridge find "a b"\n```'),
  ).toEqual([
    ['bridge', 'find', 'text'],
    ['bridge', 'lag', '--max', '9'],
  ]);
  expect(faultOf(['bridge', 'statuz'])).toBe('no command statuz');
  expect(faultOf(['bridge', 'find', 'RFQ', '--nowhere'])).toBe('no option --nowhere');
});

describe('every command exists, with its options', () => {
  test.each(pages.map(({ path }) => path))('%s', (path) => {
    const faults = shown
      .filter((each) => each.path === path)
      .map(({ words }) => [words.join(' '), faultOf(words)])
      .filter(([, fault]) => fault !== undefined);
    expect(faults).toEqual([]);
  });
});

test('no guide shows the repository’s form of a command', () => {
  const others = pages.filter(
    ({ path, text }) => path !== 'README.md' && !path.startsWith('docs/spec/') && /npm run -s cli -- \w/.test(text),
  );
  expect(others.map(({ path }) => path)).toEqual([]);
});
