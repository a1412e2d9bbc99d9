/** A choice of quirks: read from the command line, or drawn at random by a seed. */
import { AppError } from '#platform/errors.ts';
import { type FeedQuirks, plainFeed, plainWebhooks, type WebhookQuirks } from './feed-quirks.ts';
import type { Fraction } from './hostile-versions.ts';
import { type Quirk, quirkTable } from './quirk-table.ts';

export interface Misbehaviour {
  /** The quirks in force, each with its number: `late-commits=20`. */
  readonly names: readonly string[];
  readonly feed: Readonly<FeedQuirks>;
  readonly webhooks: Readonly<WebhookQuirks>;
}

interface Chosen {
  readonly quirk: Quirk;
  readonly value: number;
}

/** Reads `late-commits=5,page-numbers`. Throws an AppError `invalid` that names what it does not know. */
export function readMisbehaviour(list: string): Misbehaviour {
  return misbehaviourOf(
    list
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '')
      .map(readQuirk),
  );
}

/** Draws up to `most` quirks that go together. The same random numbers draw the same. */
export function drawMisbehaviour(random: Fraction, most: number): Misbehaviour {
  const chosen: Chosen[] = [];
  const wanted = 1 + Math.floor(random() * most);
  while (chosen.length < wanted) {
    const quirk = quirkTable[Math.floor(random() * quirkTable.length)] as Quirk;
    const candidate = { quirk, value: quirk.parameter?.fallback ?? 0 };
    const isKnown = chosen.some((other) => other.quirk === quirk);
    if (!isKnown && chosen.every((other) => conflictOf(other, candidate) === undefined)) chosen.push(candidate);
  }
  return misbehaviourOf(chosen);
}

function readQuirk(text: string): Chosen {
  const [name = '', number] = text.split('=');
  const quirk = quirkTable.find((each) => each.name === name);
  if (!quirk) throw invalid(`"${name}" is no quirk. docs/misbehave.md lists all.`);
  const { parameter } = quirk;
  if (number === undefined) return { quirk, value: parameter?.fallback ?? 0 };
  if (!parameter) throw invalid(`The quirk ${name} takes no number.`);
  const value = Number(number);
  const { what, least, most } = parameter;
  if (number.trim() === '' || !(value >= least && value <= most))
    throw invalid(
      `The quirk ${name} takes a number (${what}) from ${least} to ${most}, for example ${name}=${parameter.fallback}.`,
    );
  return { quirk, value };
}

function misbehaviourOf(chosen: readonly Chosen[]): Misbehaviour {
  for (const [index, one] of chosen.entries())
    for (const other of chosen.slice(index + 1)) {
      const member = conflictOf(one, other);
      if (member !== undefined)
        throw invalid(
          `The quirks ${nameOf(one)} and ${nameOf(other)} do not go together: each sets ${member}. Leave one out.`,
        );
    }
  return {
    names: chosen.map(nameOf),
    feed: Object.assign({}, plainFeed, ...chosen.map(({ quirk, value }) => quirk.feed?.(value) ?? {})) as FeedQuirks,
    webhooks: Object.assign(
      {},
      plainWebhooks,
      ...chosen.map(({ quirk, value }) => quirk.webhooks?.(value) ?? {}),
    ) as WebhookQuirks,
  };
}

/** The member that both set to different values. */
function conflictOf(one: Chosen, other: Chosen): string | undefined {
  const [a, b] = [membersOf(one), membersOf(other)];
  return [...a.keys()].find((member) => b.has(member) && b.get(member) !== a.get(member));
}

const membersOf = ({ quirk, value }: Chosen) =>
  new Map(Object.entries({ ...quirk.feed?.(value), ...quirk.webhooks?.(value) }));

const nameOf = ({ quirk, value }: Chosen) => (quirk.parameter ? `${quirk.name}=${value}` : quirk.name);

const invalid = (message: string) => new AppError('invalid', message);
