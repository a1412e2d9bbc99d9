/**
 * An acceptance of a connector on a customer's own test system: the steps of the conformance kit that need no fault
 * proxy and no look past the connector. For each kind it creates one document, finds it from a second session, writes it
 * again, changes it and removes it. Whatever a step says, what was made is removed at the end, or reported as left
 * behind.
 */

import type { Capabilities, Found, Operation, Outcome, Session, Unclear } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Clock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { type AcceptanceSample, acceptanceDocuments } from './acceptance-documents.ts';
import { operation, outcomeText, referenceOf } from './operations.ts';
import type { Sample } from './sample-documents.ts';

export interface AcceptanceLine {
  readonly of: string;
  readonly name: string;
  readonly ok: boolean;
  /** May hold a secret of the settings: the caller removes those before it shows the line. */
  readonly message: string;
}

interface Acceptance {
  readonly kinds: readonly DocumentKind[];
  readonly capabilities: Capabilities;
  /** Opens a session of its own at each call; the caller closes them. */
  readonly open: () => Promise<Session>;
  readonly sample: AcceptanceSample;
  /** Without it nothing is written: checks, a lookup and a plan only. */
  readonly mayWrite: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The longest time that a step waits until the ERP shows what it has written. */
const visibleMsMax = 60_000;
const lookEveryMs = 1_000;

/** Never rejects for what the ERP or the connector does: that is a line. */
export async function runAcceptance(acceptance: Acceptance): Promise<AcceptanceLine[]> {
  const lines: AcceptanceLine[] = [];
  const session = await acceptance.open();
  for (const { name, ok, message } of await session.check()) lines.push({ of: 'system', name, ok, message });
  if (lines.some(({ ok }) => !ok)) return lines;
  for (const kind of acceptance.kinds) lines.push(...(await acceptKind(acceptance, session, kind)));
  if (acceptance.mayWrite && acceptance.kinds.includes('award')) lines.push(...(await tryFirst(acceptance, session)));
  return lines;
}

/** The connector's own first tests, each whatever the one before says: the last one removes what they have made. */
async function tryFirst({ sample, capabilities, signal }: Acceptance, session: Session): Promise<AcceptanceLine[]> {
  const [award] = acceptanceDocuments('award', sample).versions;
  if (award.kind !== 'award') return [];
  const lines: AcceptanceLine[] = [];
  for (const { name, run } of session.firstTests?.(award) ?? [])
    try {
      const message = await run(AbortSignal.any([signal, AbortSignal.timeout(capabilities.timeoutMs)]));
      lines.push({ of: 'first tests', name, ok: true, message });
    } catch (error) {
      lines.push({ of: 'first tests', name, ok: false, message: errorText(error) });
    }
  return lines;
}

async function acceptKind(acceptance: Acceptance, session: Session, kind: DocumentKind): Promise<AcceptanceLine[]> {
  const { capabilities, mayWrite, signal } = acceptance;
  const sample = acceptanceDocuments(kind, acceptance.sample);
  const lines: AcceptanceLine[] = [];
  const limit = () => AbortSignal.any([signal, AbortSignal.timeout(capabilities.timeoutMs)]);
  /** Returns whether the step went well; what it throws is its message. */
  const step = async (name: string, run: () => Promise<string>): Promise<boolean> => {
    try {
      lines.push({ of: kind, name, ok: true, message: await run() });
      return true;
    } catch (error) {
      lines.push({ of: kind, name, ok: false, message: errorText(error) });
      return false;
    }
  };
  const write = async (by: Session, next: Operation, expected: readonly Outcome['status'][]) => {
    const [outcome] = await by.write([next], limit());
    if (!outcome || !expected.includes(outcome.status))
      throw new Error(`expected ${expected.join(' or ')}, the connector says ${outcomeText(outcome)}`);
    return referenceOf(outcome) ?? '';
  };
  const [first, second, third] = sample.versions;
  const create = operation('create', sample, first);

  await step('nothing is there before', async () => {
    const found = await session.lookup([first], limit());
    if (found.length > 0) throw new Error(`lookup finds ${foundText(found)} for a new key`);
    return 'lookup finds nothing for a new key';
  });
  if (session.plan)
    await step('the plan', async () => {
      const [planned] = (await session.plan?.([create], limit())) ?? [];
      if (planned?.action !== 'create') throw new Error(`expected create: ${planned?.steps.join('; ') ?? 'no plan'}`);
      return planned.steps.join('; ');
    });
  if (!mayWrite) return lines;

  let reference: string | undefined;
  try {
    const isCreated = await step('create', async () => {
      reference = await write(session, create, ['created']);
      return reference;
    });
    if (isCreated) {
      const other = await acceptance.open();
      await step('found by another session', () => expectFound(acceptance, other, first, reference));
      await step('written again', async () => {
        reference = await write(other, operation('amend', sample, first, reference), ['unchanged', 'updated']);
        return expectFound(acceptance, other, first, reference);
      });
      await step('stopped before it is sent', async () => {
        const [outcome] = await other.write([operation('amend', sample, second, reference)], AbortSignal.abort());
        if (outcome && 'reference' in outcome) throw new Error(`a stopped write claims ${outcomeText(outcome)}`);
        return 'claims nothing';
      });
      await step('changed', async () => {
        reference = await write(other, operation('amend', sample, second, reference), ['updated']);
        return expectFound(acceptance, other, second, reference);
      });
    }
  } finally {
    await step('removed', () => remove(acceptance, session, { sample, third, reference }));
  }
  return lines;
}

/** Removes whatever the ERP holds for the document, also after a step that has failed half-way. */
async function remove(
  { capabilities, signal }: Acceptance,
  session: Session,
  { sample, third, reference }: { sample: Sample; third: Document; reference: string | undefined },
): Promise<string> {
  const limit = () => AbortSignal.any([signal, AbortSignal.timeout(capabilities.timeoutMs)]);
  const found = (await session.lookup([third], limit())).filter((entry): entry is Found => 'reference' in entry);
  const held = found[0]?.reference ?? reference;
  if (held === undefined) return 'nothing was made';
  const last = sample.withdrawn
    ? operation('cancel', sample, sample.withdrawn, held)
    : operation('amend', sample, third, held);
  const [outcome] = await session.write([last], limit());
  if (!outcome || !('reference' in outcome)) throw new Error(`${held} is LEFT BEHIND: ${outcomeText(outcome)}`);
  if (!sample.withdrawn) return `${held} is archived; suppliers are never removed`;
  const left = await session.lookup([third], limit());
  if (left.length > 0) throw new Error(`${foundText(left)} is LEFT BEHIND: it was cancelled, and lookup finds it`);
  return `${held} is cancelled, and lookup finds nothing`;
}

async function expectFound(
  { capabilities, clock, signal }: Acceptance,
  session: Session,
  document: Document,
  reference: string | undefined,
): Promise<string> {
  const { lateEffectMs, visibleAfterMs = lateEffectMs } = capabilities;
  const untilMs = clock.nowMs() + Math.min(visibleAfterMs, visibleMsMax);
  for (;;) {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(capabilities.timeoutMs)]);
    const found = await session.lookup([document], limit);
    const [only] = found;
    if (found.length === 1 && only && 'reference' in only && only.reference === reference)
      return `lookup finds ${reference}, once`;
    if (clock.nowMs() >= untilMs)
      throw new Error(
        `lookup finds ${found.length === 0 ? 'nothing' : foundText(found)} instead of ${reference}, once`,
      );
    await clock.sleep(lookEveryMs, signal);
  }
}

function foundText(found: readonly (Found | Unclear)[]): string {
  return found.map((entry) => ('reference' in entry ? entry.reference : entry.unclear)).join(', ');
}
