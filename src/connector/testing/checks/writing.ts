/** Writing when nothing goes wrong: once, in order, truthfully, and as it was given. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document, DocumentOf } from '#connector/documents.ts';
import type { Check } from '#connector/testing/check.ts';
import { fault, missingMember, NotApplicable } from '#connector/testing/finding.ts';
import { operation, referenceOf, sampleHash, shownOutcome, slices } from '#connector/testing/operations.ts';
import type { Sample } from '#connector/testing/sample-documents.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { Opened } from '#connector/testing/watched-session.ts';

/** Writes one, which has to be done with one of these statuses; gives its reference. */
async function writeOne(opened: Opened, one: Operation, statuses: readonly Outcome['status'][]): Promise<string> {
  const [outcome] = await opened.write([one]);
  if (!outcome || !('reference' in outcome) || !statuses.includes(outcome.status))
    fault({
      expected: `${one.action} ${one.document.kind} ${one.document.key}: ${statuses.map((status) => `"${status}"`).join(' or ')}`,
      seen: shownOutcome(outcome),
      lookAt:
        'the outcome that write() makes of the ERP’s answer: it says what the ERP has done, not what it was asked',
    });
  return outcome.reference;
}

export const sameTwice: Check = {
  name: 'same document twice',
  guarantee: 'a document that is created again, or amended with what it is already, is one object in the ERP',
  async run(stage) {
    const opened = await stage.open();
    const { idempotency } = stage.capabilities;
    for (const kind of stage.kinds) {
      const sample = stage.sample(kind);
      const [document] = sample.versions;
      const create = operation('create', sample, document);
      const reference = await writeOne(opened, create, ['created']);
      if (idempotency === 'key') await writeOne(opened, create, ['created', 'unchanged', 'updated']);
      if (idempotency === 'external-id')
        await writeOne(opened, { ...create, idempotencyKey: randomUUID() }, ['unchanged', 'updated']);
      // Forced by a person, or since `lookup` cannot tell what the ERP holds.
      await writeOne(opened, operation('amend', sample, document, reference), ['unchanged', 'updated']);
      await stage.expectHeld(sample, document, 'it was written again');
    }
  },
};

export const versions: Check = {
  name: 'versions',
  guarantee: 'after each write the ERP holds the version that was written last, whatever came before',
  async run(stage) {
    const opened = await stage.open();
    for (const kind of stage.kinds) {
      const sample = stage.sample(kind, 1);
      const [v1, v2, v3] = sample.versions;
      let reference = await writeOne(opened, operation('create', sample, v1), ['created']);
      for (const [version, name] of [
        [v2, 'version 2'],
        [v1, 'version 1 again'],
        // Fewer lines, and more again.
        [v3, 'version 3'],
        [v2, 'version 2 again'],
      ] as const) {
        reference = await writeOne(opened, operation('amend', sample, version, reference), ['updated']);
        await stage.expectHeld(sample, version, name);
      }
      if (v3.kind === 'supplier') await expectArchivedStays(stage, opened, sample, v3);
    }
  },
};

/** Of a supplier that feeds only name nobody knows whether it is archived: then it stays as it is in the ERP. */
async function expectArchivedStays(
  stage: Stage,
  opened: Opened,
  sample: Sample,
  archived: DocumentOf<'supplier'>,
): Promise<void> {
  const { archived: _known, ...unknown } = { ...archived, name: `${archived.name} (3)` };
  const [found] = await opened.lookup([archived]);
  let reference = await writeOne(opened, operation('amend', sample, archived, found?.reference), ['updated']);
  reference = await writeOne(opened, operation('amend', sample, unknown, reference), ['updated']);
  const when = `it was archived, and a document came that does not say whether it is (${reference})`;
  await stage.expectHeld(
    sample,
    { ...unknown, archived: true },
    when,
    'the mapping: `archived` that is left out is unknown, not false, and what the ERP has stays',
  );
}

export const references: Check = {
  name: 'references',
  guarantee: 'outcomes, lookup and the ERP call an object by the same reference',
  async run(stage) {
    const opened = await stage.open();
    for (const kind of stage.kinds) {
      const sample = stage.sample(kind, 2);
      const [v1, v2] = sample.versions;
      const created = await writeOne(opened, operation('create', sample, v1), ['created']);
      const updated = await writeOne(opened, operation('amend', sample, v2, created), ['updated']);
      await stage.settled(opened);
      const [found] = await opened.lookup([v2]);
      const [held] = await stage.target.held(v2);
      for (const [what, reference] of [
        ['the amendment', updated],
        ['lookup()', found?.reference],
        ['held()', held?.reference],
      ] as const)
        if (reference !== created)
          fault({
            expected: `${what} gives the reference that the creation gave, ${created}`,
            seen: String(reference),
            lookAt: 'where references are made: the ERP’s own number of the object, the same everywhere',
          });
    }
  },
};

export const fidelity: Check = {
  name: 'fidelity',
  guarantee: 'decimals, currencies, times and texts of any script are in the ERP as they were given',
  async run(stage) {
    const opened = await stage.open();
    for (const kind of stage.kinds) {
      const texts = new Set<string>();
      let decimals = 0;
      // As many as there are texts and currencies.
      for (let n = 0; n < 6; n += 1) {
        const sample = stage.sample(kind, n);
        let reference = '';
        for (const [index, version] of sample.versions.slice(0, 2).entries()) {
          const one = operation(index === 0 ? 'create' : 'amend', sample, version, reference || undefined);
          reference = await writeOne(opened, one, ['created', 'updated']);
          const compared = await stage.expectHeld(sample, version, 'it was written');
          for (const text of compared.texts) texts.add(text);
          decimals += compared.decimals.length;
        }
        await expectBytes(stage, sample);
      }
      expectCompared(stage, kind, [...texts], decimals);
    }
  },
};

/** A comparison that compares nothing proves nothing. */
function expectCompared(stage: Stage, kind: Document['kind'], texts: readonly string[], decimals: number): void {
  const lookAt = 'held() of the conformance test: it gives what the ERP holds in the document’s own shape';
  const foreign = /[^ -~\s]/;
  const hasForeign = [0, 1, 2, 3, 4, 5].some((n) => foreign.test(JSON.stringify(stage.sample(kind, n).versions)));
  if (texts.length === 0 || (hasForeign && !texts.some((text) => foreign.test(text))))
    fault({
      expected: `held() shows at least one text with other letters than the English ones, of each ${kind} document`,
      seen: `${texts.length} texts`,
      lookAt,
    });
  if ((kind === 'award' || kind === 'quotation') && decimals === 0)
    fault({ expected: `held() shows at least one price or amount of each ${kind} document`, seen: 'none', lookAt });
}

async function expectBytes(stage: Stage, sample: Sample): Promise<void> {
  if (!sample.bytes) return;
  const [held] = await stage.target.held(sample.versions[0]);
  if (!held?.bytes)
    fault({
      expected: 'held() shows the bytes of a file document, as `bytes`',
      seen: 'none',
      lookAt: 'held() of the conformance test',
    });
}

export const withdraw: Check = {
  name: 'withdrawal',
  guarantee:
    'lots that are taken back, added and changed are so in the ERP; what is cancelled is gone, and can come back',
  async run(stage) {
    const opened = await stage.open();
    const kinds = stage.kinds.filter((kind) => kind !== 'supplier');
    if (kinds.length === 0) throw new NotApplicable('suppliers are never withdrawn');
    for (const kind of kinds) {
      const sample = stage.sample(kind, 3);
      const [v1, v2] = sample.versions;
      const withdrawn = sample.withdrawn as Document;
      const reference = await writeOne(opened, operation('create', sample, v1), ['created']);
      await writeOne(opened, operation('amend', sample, v2, reference), ['updated']);
      await stage.expectHeld(sample, v2, 'one lot was taken back, one added, one changed');
      await writeOne(opened, operation('cancel', sample, withdrawn, reference), ['cancelled']);
      await stage.expectHeld(sample, undefined, 'it was cancelled');
      await writeOne(opened, operation('cancel', sample, withdrawn, reference), ['cancelled', 'unchanged']);
      await stage.expectHeld(sample, undefined, 'it was cancelled twice');
      await writeOne(opened, operation('create', sample, v1), ['created', 'updated']);
      await stage.expectHeld(sample, v1, 'it was created after it had been cancelled');
    }
  },
};

export const keysAlike: Check = {
  name: 'keys alike',
  guarantee:
    'of suppliers whose keys differ in capital letters only each is its own, or one is refused; none is overwritten',
  async run(stage) {
    if (!stage.kinds.includes('supplier')) throw new NotApplicable('only the keys of suppliers are given by people');
    const opened = await stage.open();
    const first = stage.sample('supplier', 0);
    const [document] = first.versions;
    const alike = { ...stage.sample('supplier', 1), key: first.key.toUpperCase() };
    const other = { ...alike.versions[0], key: alike.key, external_id: alike.key } as Document;
    await stage.create(opened, [first]);
    await stage.settled(opened);
    const found = await opened.lookup([other]);
    if (found.some(({ key }) => key === alike.key))
      fault({
        expected: `lookup() finds nothing for ${alike.key}, as only ${first.key} was written`,
        seen: JSON.stringify(found),
        lookAt: 'how the key is stored and searched in the ERP: as a whole, exactly',
      });
    const [outcome] = await opened.write([operation('create', alike, other)]);
    const isRefused = outcome?.status === 'rejected';
    if (outcome?.status !== 'created' && !isRefused)
      fault({
        expected: `a supplier ${alike.key} beside ${first.key} is "created", or "rejected" where the ERP cannot tell them apart`,
        seen: shownOutcome(outcome),
        lookAt: 'what the ERP compares keys by: a collation, a unique index',
      });
    await stage.expectHeld(first, document, 'another was written whose key differs in capital letters only');
    if (!isRefused) await stage.expectHeld(alike, other, 'it was written beside one of a like key');
  },
};

/** Enough for any limit of an ERP's on what may be asked for in one request. */
const lookupMost = 500;

export const lookup: Check = {
  name: 'lookup',
  guarantee: 'lookup() finds what was written, with its hash, and nothing of other keys or of what is cancelled',
  async run(stage) {
    const opened = await stage.open();
    const lookAt = 'lookup(), and how the document’s key is stored and searched in the ERP: as a whole, exactly';
    for (const kind of stage.kinds) {
      const [here, gone, missing] = [stage.sample(kind, 0), stage.sample(kind, 1), stage.sample(kind, 2)];
      const created = await stage.create(opened, [here, gone]);
      if (gone.withdrawn)
        await writeOne(opened, operation('cancel', gone, gone.withdrawn, created[1]?.reference), ['cancelled']);
      await stage.settled(opened);
      const [document] = here.versions;
      // Keys that look alike: a beginning of the key, a longer one, one in other letters.
      const alike = [here.key.slice(0, -1), `${here.key}0`, here.key.toUpperCase()].filter((key) => key !== here.key);
      const asked: Document[] = [
        missing.versions[0],
        document,
        ...(gone.withdrawn ? [gone.versions[0]] : []),
        ...alike.map((key) => ({ ...document, key })),
      ];
      // In as many documents at once as the bridge may ask for.
      const { batchMax } = stage.capabilities;
      const more = Array.from({ length: Math.min(batchMax, lookupMost) - asked.length }, (_, n) => ({
        ...stage.sample(kind, n).versions[0],
      }));
      const found = [];
      for (const slice of slices([...asked, ...more], batchMax)) found.push(...(await opened.lookup(slice)));
      const others = found.filter(({ key }) => key !== here.key);
      const own = found.filter(({ key }) => key === here.key);
      if (others.length > 0)
        fault({
          expected: `lookup() finds nothing of keys that the ERP does not hold, or whose object is cancelled (${kind})`,
          seen: others.map(({ key, reference }) => `${key}: ${reference}`).join(', '),
          lookAt,
        });
      if (own.length !== 1 || own[0]?.reference !== created[0]?.reference)
        fault({
          expected: `lookup() finds ${kind} ${here.key} once, as ${created[0]?.reference}`,
          seen: own.length === 0 ? 'nothing' : own.map(({ reference }) => reference).join(', '),
          lookAt,
        });
      const hash = own[0]?.contentHash;
      if (hash !== undefined && hash !== sampleHash(document))
        fault({
          expected: 'lookup() gives the contentHash of the operation that was written last, or undefined',
          seen: hash,
          lookAt: 'where the hash is stored: with the object, in the same request',
        });
    }
  },
};

export const plan: Check = {
  name: 'plan',
  guarantee: 'plan() changes nothing, and says what write() then does',
  async run(stage) {
    const opened = await stage.open();
    if (!opened.plan) throw new NotApplicable('the connector has no plan()');
    for (const kind of stage.kinds) {
      const fresh = stage.sample(kind, 0);
      const changed = stage.sample(kind, 1);
      const same = stage.sample(kind, 2);
      const gone = stage.sample(kind, 3);
      const created = await stage.create(opened, [changed, same, gone]);
      const held = new Map<Sample, Document | undefined>([
        [fresh, undefined],
        [changed, changed.versions[0]],
        [same, same.versions[0]],
        [gone, gone.versions[0]],
      ]);
      const operations = [
        [fresh, operation('create', fresh, fresh.versions[0])] as const,
        [changed, operation('amend', changed, changed.versions[1], created[0]?.reference)] as const,
        [same, operation('amend', same, same.versions[0], created[1]?.reference)] as const,
        ...(gone.withdrawn ? [[gone, operation('cancel', gone, gone.withdrawn, created[2]?.reference)] as const] : []),
      ];
      for (const [sample, one] of operations) {
        const [planned] = await opened.plan([one]);
        for (const [other, version] of held) await stage.expectHeld(other, version, 'plan()');
        const [outcome] = await opened.write([one]);
        const done = { create: 'created', amend: 'updated', cancel: 'cancelled', none: 'unchanged' } as const;
        if (!planned || planned.key !== one.document.key || done[planned.action] !== outcome?.status)
          fault({
            expected: `plan() of ${one.action} ${kind} says what write() does: ${shownOutcome(outcome)}`,
            seen: JSON.stringify(planned),
            lookAt: 'plan(): it compares with what the ERP holds, as write() does',
          });
        if (planned.action !== 'none' && !planned.steps.some((step) => /\S/.test(step)))
          fault({ expected: 'a plan has steps in words', seen: JSON.stringify(planned.steps), lookAt: 'plan()' });
        held.set(sample, one.action === 'cancel' ? undefined : one.document);
      }
    }
  },
};

export const batch: Check = {
  name: 'batch',
  guarantee: 'as many operations as a write may have give as many outcomes, in their order',
  async run(stage) {
    const opened = await stage.open();
    // More would prove nothing more, and real ERPs are slow.
    const size = Math.min(stage.capabilities.batchMax, 200);
    for (const kind of stage.kinds) {
      const samples = Array.from({ length: size }, (_, n) => stage.sample(kind, n));
      const outcomes = await opened.write(samples.map((sample) => operation('create', sample, sample.versions[0])));
      for (const [index, sample] of samples.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== 'created')
          fault({
            expected: `outcome ${index + 1} of ${size} is "created" (${kind})`,
            seen: shownOutcome(outcome),
            lookAt: 'how write() takes a whole batch, and the capability batchMax',
          });
        // A few of many: the first, the last and some in between.
        if (size > 20 && index % Math.ceil(size / 10) !== 0 && index !== size - 1) continue;
        await stage.expectHeld(sample, sample.versions[0], 'a batch');
        const [held] = await stage.target.held(sample.versions[0]);
        if (held?.reference !== referenceOf(outcome))
          fault({
            expected: `outcome ${index + 1} of ${size} is that of operation ${index + 1}: ${held?.reference}`,
            seen: shownOutcome(outcome),
            lookAt: 'the order of the outcomes: that of the operations, not that in which the ERP has answered',
          });
      }
    }
  },
};

export const poisoned: Check = {
  name: 'poisoned record',
  guarantee: 'a record that the ERP refuses is refused alone, in the ERP’s words; those beside it are written once',
  async run(stage) {
    const { poison } = stage.target;
    if (!poison) missingMember('poison', 'poisoned record', 'the ERP refuses no record');
    const opened = await stage.open();
    let refused = 0;
    for (const kind of stage.kinds) {
      const size = Math.min(stage.capabilities.batchMax, 5);
      const samples = Array.from({ length: size }, (_, n) => stage.sample(kind, n));
      const bad = Math.floor(size / 2);
      const whole = samples[bad]?.versions[0] as Document;
      // Of this kind, the ERP refuses none.
      if (isDeepStrictEqual(poison(whole), whole)) continue;
      refused += 1;
      const operations = samples.map((sample, index) =>
        operation('create', sample, index === bad ? poison(sample.versions[0]) : sample.versions[0]),
      );
      const outcomes = await opened.write(operations);
      for (const [index, sample] of samples.entries()) {
        const outcome = outcomes[index];
        if (index !== bad) {
          if (outcome?.status !== 'created')
            fault({
              expected: `a ${kind} document beside one that is refused is "created"`,
              seen: shownOutcome(outcome),
              lookAt:
                'how a batch goes on after one of it is refused: a transaction or request of its own for each, or a second try without it',
            });
          await stage.expectHeld(sample, sample.versions[0], 'one beside it was refused');
          continue;
        }
        const isRefused = outcome?.status === 'rejected' && outcome.error.type === 'data';
        if (!isRefused || !/\S\s+\S/.test(outcome.error.message))
          fault({
            expected: `a ${kind} document that the ERP refuses is "rejected", data, with the ERP’s words`,
            seen: shownOutcome(outcome),
            lookAt: 'the answer in which the ERP refuses it: it is a DataError, whatever its status',
          });
        await stage.expectHeld(sample, undefined, 'it was refused');
      }
    }
    if (refused === 0)
      missingMember('poison', 'poisoned record', 'the ERP refuses no record', 'a poison() that changes no document');
  },
};
