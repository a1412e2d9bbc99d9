/** Writing without faults: each document once, in order, unchanged, and with true outcomes. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document, DocumentOf } from '#connector/documents.ts';
import { secretsIn } from '#connector/settings.ts';
import type { Check } from '#connector/testing/check.ts';
import { failCheck, missingMember, NotApplicable } from '#connector/testing/finding.ts';
import { withdrawAsBridge } from '#connector/testing/finish-as-bridge.ts';
import { operation, outcomeText, referenceOf, sampleHash, slices } from '#connector/testing/operations.ts';
import type { Sample } from '#connector/testing/sample-documents.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { WatchedSession } from '#connector/testing/watched-session.ts';

/** Writes one operation, which must end with one of these statuses; returns its reference. */
async function writeOne(
  session: WatchedSession,
  operation: Operation,
  statuses: readonly Outcome['status'][],
): Promise<string> {
  const [outcome] = await session.write([operation]);
  if (!outcome || !('reference' in outcome) || !statuses.includes(outcome.status))
    failCheck({
      expected: `${operation.action} ${operation.document.kind} ${operation.document.key}: ${statuses.map((status) => `"${status}"`).join(' or ')}`,
      seen: outcomeText(outcome),
      lookAt:
        'the outcome that write() makes of the ERP’s answer: it states what the ERP has done, not what was requested',
    });
  return outcome.reference;
}

export const sameTwice: Check = {
  name: 'same document twice',
  guarantee: 'a document that is created again, or amended without a change, is one object in the ERP',
  async run(stage) {
    const session = await stage.open();
    const { idempotency } = stage.capabilities;
    for (const kind of stage.kinds) {
      const sample = stage.sample(kind);
      const [document] = sample.versions;
      const create = operation('create', sample, document);
      const reference = await writeOne(session, create, ['created']);
      if (idempotency === 'key') await writeOne(session, create, ['created', 'unchanged', 'updated']);
      if (idempotency === 'external-id')
        await writeOne(session, { ...create, idempotencyKey: randomUUID() }, ['unchanged', 'updated']);
      // The bridge does this when an operator forces it, and when `lookup` returns no hash.
      await writeOne(session, operation('amend', sample, document, reference), ['unchanged', 'updated']);
      await stage.expectHeld(sample, document, 'it was written again');
    }
  },
};

export const versions: Check = {
  name: 'versions',
  guarantee: 'after each write the ERP holds the version that was written last, whatever came before',
  async run(stage) {
    const session = await stage.open();
    for (const kind of stage.kinds) {
      const sample = stage.sample(kind, 1);
      const [v1, v2, v3] = sample.versions;
      let reference = await writeOne(session, operation('create', sample, v1), ['created']);
      for (const [version, name] of [
        [v2, 'version 2'],
        [v1, 'version 1 again'],
        // Fewer lines, then more lines again.
        [v3, 'version 3'],
        [v2, 'version 2 again'],
      ] as const) {
        reference = await writeOne(session, operation('amend', sample, version, reference), ['updated']);
        await stage.expectHeld(sample, version, name);
      }
      if (v3.kind === 'supplier') await expectArchivedStays(stage, session, sample, v3);
    }
  },
};

/** A supplier that is known from feeds only has no `archived`: then the state in the ERP must stay. */
async function expectArchivedStays(
  stage: Stage,
  session: WatchedSession,
  sample: Sample,
  archived: DocumentOf<'supplier'>,
): Promise<void> {
  const { archived: _archived, ...unknown } = { ...archived, name: `${archived.name} (3)` };
  const [found] = await session.lookup([archived]);
  let reference = await writeOne(session, operation('amend', sample, archived, found?.reference), ['updated']);
  reference = await writeOne(session, operation('amend', sample, unknown, reference), ['updated']);
  const when = `it was archived, and then a document without \`archived\` was written (${reference})`;
  await stage.expectHeld(
    sample,
    { ...unknown, archived: true },
    when,
    'the mapping: a missing `archived` is unknown, not false, and the state in the ERP stays',
  );
}

export const references: Check = {
  name: 'references',
  guarantee:
    'outcomes, lookup() and the ERP name an object by the same reference; urlOf(), if there is one, leads to it without a secret',
  async run(stage) {
    const session = await stage.open();
    for (const kind of stage.kinds) {
      const sample = stage.sample(kind, 2);
      const [v1, v2] = sample.versions;
      const created = await writeOne(session, operation('create', sample, v1), ['created']);
      const updated = await writeOne(session, operation('amend', sample, v2, created), ['updated']);
      await stage.waitUntilIdle(session);
      const [found] = await session.lookup([v2]);
      const [held] = await stage.target.held(v2);
      for (const [what, reference] of [
        ['the amend', updated],
        ['lookup()', found?.reference],
        ['held()', held?.reference],
      ] as const)
        if (reference !== created)
          failCheck({
            expected: `${what} has the reference of the create, ${created}`,
            seen: String(reference),
            lookAt: 'where references are made: the ERP’s own number of the object, the same everywhere',
          });
      expectAddress(stage, created);
    }
  },
};

/** The address that is shown for a reference: a person may click on it, and it may be sent on. */
function expectAddress({ connector, target, deadAddress }: Stage, reference: string): void {
  if (!connector.urlOf) return;
  const settings = connector.settings.parse(target.settings(deadAddress));
  const url = connector.urlOf(reference, settings);
  if (url === undefined) return;
  const { protocol, username, password } = URL.parse(url) ?? {};
  const isPlain = (protocol === 'http:' || protocol === 'https:') && username === '' && password === '';
  const secrets = secretsIn(settings).filter((secret) => secret !== '' && decodeURIComponent(url).includes(secret));
  if (!isPlain || secrets.length > 0)
    failCheck({
      expected: `urlOf() returns an http or https URL for ${reference}, without a login or a secret of the settings`,
      seen: secrets.length > 0 ? 'a URL with a secret in it' : url,
      lookAt: 'urlOf()',
    });
}

export const fidelity: Check = {
  name: 'fidelity',
  guarantee: 'decimals, currencies, times and texts of any script reach the ERP unchanged',
  async run(stage) {
    const session = await stage.open();
    for (const kind of stage.kinds) {
      const texts = new Set<string>();
      let decimals = 0;
      // Six samples have all texts and currencies.
      for (let n = 0; n < 6; n += 1) {
        const sample = stage.sample(kind, n);
        let reference = '';
        for (const [index, version] of sample.versions.slice(0, 2).entries()) {
          const next = operation(index === 0 ? 'create' : 'amend', sample, version, reference || undefined);
          reference = await writeOne(session, next, ['created', 'updated']);
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

/** Fails the check when `held()` showed too little: a comparison without values would prove nothing. */
function expectCompared(stage: Stage, kind: Document['kind'], texts: readonly string[], decimals: number): void {
  const lookAt = 'held() of the conformance test: it returns what the ERP holds in the structure of the document';
  const foreign = /[^ -~\s]/;
  const hasForeign = [0, 1, 2, 3, 4, 5].some((n) => foreign.test(JSON.stringify(stage.sample(kind, n).versions)));
  if (texts.length === 0 || (hasForeign && !texts.some((text) => foreign.test(text))))
    failCheck({
      expected: `held() shows at least one text with other letters than the English ones, of each ${kind} document`,
      seen: `${texts.length} texts`,
      lookAt,
    });
  if ((kind === 'award' || kind === 'quotation') && decimals === 0)
    failCheck({ expected: `held() shows at least one price or amount of each ${kind} document`, seen: 'none', lookAt });
}

async function expectBytes(stage: Stage, sample: Sample): Promise<void> {
  if (!sample.bytes) return;
  const [held] = await stage.target.held(sample.versions[0]);
  if (!held?.bytes)
    failCheck({
      expected: 'held() shows the bytes of a file document, as `bytes`',
      seen: 'none',
      lookAt: 'held() of the conformance test',
    });
}

export const withdraw: Check = {
  name: 'withdrawal',
  guarantee: 'removed, added and changed lots are so in the ERP; a cancelled object is gone, and can be created again',
  async run(stage) {
    const session = await stage.open();
    const kinds = stage.kinds.filter((kind) => kind !== 'supplier' && kind !== 'job');
    if (kinds.length === 0) throw new NotApplicable('suppliers and jobs are never withdrawn');
    for (const kind of kinds) {
      const sample = stage.sample(kind, 3);
      const [v1, v2] = sample.versions;
      const withdrawn = sample.withdrawn as Document;
      const reference = await writeOne(session, operation('create', sample, v1), ['created']);
      await writeOne(session, operation('amend', sample, v2, reference), ['updated']);
      await stage.expectHeld(sample, v2, 'one lot was removed, one added, one changed');
      await writeOne(session, operation('cancel', sample, withdrawn, reference), ['cancelled']);
      await stage.expectHeld(sample, undefined, 'it was cancelled');
      await writeOne(session, operation('cancel', sample, withdrawn, reference), ['cancelled', 'unchanged']);
      await stage.expectHeld(sample, undefined, 'it was cancelled twice');
      await writeOne(session, operation('create', sample, v1), ['created', 'updated']);
      await stage.expectHeld(sample, v1, 'it was created after it had been cancelled');
    }
  },
};

export const keysAlike: Check = {
  name: 'keys alike',
  guarantee:
    'suppliers whose keys differ only in capital letters are separate objects, or one is refused; none is overwritten',
  async run(stage) {
    if (!stage.kinds.includes('supplier')) throw new NotApplicable('only suppliers have keys that people choose');
    const session = await stage.open();
    const first = stage.sample('supplier', 0);
    const [document] = first.versions;
    const alike = { ...stage.sample('supplier', 1), key: first.key.toUpperCase() };
    const other = { ...alike.versions[0], key: alike.key, external_id: alike.key } as Document;
    await stage.create(session, [first]);
    await stage.waitUntilIdle(session);
    const found = await session.lookup([other]);
    if (found.some(({ key }) => key === alike.key))
      failCheck({
        expected: `lookup() finds nothing for ${alike.key}, as only ${first.key} was written`,
        seen: JSON.stringify(found),
        lookAt: 'how the key is stored and searched in the ERP: completely and exactly',
      });
    const [outcome] = await session.write([operation('create', alike, other)]);
    const isRefused = outcome?.status === 'rejected';
    if (outcome?.status !== 'created' && !isRefused)
      failCheck({
        expected: `a supplier ${alike.key} beside ${first.key} is "created", or "rejected" where the ERP cannot tell them apart`,
        seen: outcomeText(outcome),
        lookAt: 'how the ERP compares keys: a collation, a unique index',
      });
    await stage.expectHeld(first, document, 'another was written whose key differs only in capital letters');
    if (!isRefused) await stage.expectHeld(alike, other, 'it was written beside one with a similar key');
  },
};

/** Exceeds any limit that an ERP may have on the keys of one request. */
const lookupMax = 100;

export const lookup: Check = {
  name: 'lookup',
  guarantee: 'lookup() finds what was written, with its hash, and nothing for other keys or cancelled objects',
  async run(stage) {
    const session = await stage.open();
    const lookAt = 'lookup(), and how the document’s key is stored and searched in the ERP: completely and exactly';
    for (const kind of stage.kinds) {
      const [present, gone, missing] = [stage.sample(kind, 0), stage.sample(kind, 1), stage.sample(kind, 2)];
      const created = await stage.create(session, [present, gone]);
      if (gone.withdrawn)
        await writeOne(session, operation('cancel', gone, gone.withdrawn, created[1]?.reference), ['cancelled']);
      await stage.waitUntilIdle(session);
      const [document] = present.versions;
      // Similar keys: a prefix of the key, a longer one, one in capital letters.
      const { key: presentKey } = present;
      const similar = [presentKey.slice(0, -1), `${presentKey}0`, presentKey.toUpperCase()].filter(
        (key) => key !== presentKey,
      );
      const asked: Document[] = [
        missing.versions[0],
        document,
        ...(gone.withdrawn ? [gone.versions[0]] : []),
        ...similar.map((key) => ({ ...document, key })),
      ];
      // Fill up to as many documents as the bridge may ask for at once.
      const { batchMax } = stage.capabilities;
      const more = Array.from({ length: Math.min(batchMax, lookupMax) - asked.length }, (_, n) => ({
        ...stage.sample(kind, n).versions[0],
      }));
      const found = [];
      for (const slice of slices([...asked, ...more], batchMax)) found.push(...(await session.lookup(slice)));
      const others = found.filter(({ key }) => key !== presentKey);
      const own = found.filter(({ key }) => key === presentKey);
      if (others.length > 0)
        failCheck({
          expected: `lookup() finds nothing for keys that the ERP does not hold, or whose object is cancelled (${kind})`,
          seen: others.map(({ key, reference }) => `${key}: ${reference}`).join(', '),
          lookAt,
        });
      if (own.length !== 1 || own[0]?.reference !== created[0]?.reference)
        failCheck({
          expected: `lookup() finds ${kind} ${presentKey} once, as ${created[0]?.reference}`,
          seen: own.length === 0 ? 'nothing' : own.map(({ reference }) => reference).join(', '),
          lookAt,
        });
      const hash = own[0]?.contentHash;
      if (hash !== undefined && hash !== sampleHash(document))
        failCheck({
          expected: 'lookup() returns the contentHash of the operation that was written last, or undefined',
          seen: hash,
          lookAt: 'where the hash is stored: with the object, in the same request',
        });
    }
  },
};

export const plan: Check = {
  name: 'plan',
  guarantee: 'plan() changes nothing, and predicts what write() does',
  async run(stage) {
    const session = await stage.open();
    if (!session.plan) throw new NotApplicable('the connector has no plan()');
    for (const kind of stage.kinds) {
      const fresh = stage.sample(kind, 0);
      const changed = stage.sample(kind, 1);
      const same = stage.sample(kind, 2);
      const gone = stage.sample(kind, 3);
      const created = await stage.create(session, [changed, same, gone]);
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
      for (const [sample, operation] of operations) {
        const [planned] = await session.plan([operation]);
        for (const [other, version] of held) await stage.expectHeld(other, version, 'plan()');
        const [outcome] = await session.write([operation]);
        const done = { create: 'created', amend: 'updated', cancel: 'cancelled', none: 'unchanged' } as const;
        if (!planned || planned.key !== operation.document.key || done[planned.action] !== outcome?.status)
          failCheck({
            expected: `plan() of ${operation.action} ${kind} predicts what write() does: ${outcomeText(outcome)}`,
            seen: JSON.stringify(planned),
            lookAt: 'plan(): it compares with what the ERP holds, as write() does',
          });
        if (planned.action !== 'none' && !planned.steps.some((step) => /\S/.test(step)))
          failCheck({ expected: 'a plan has steps in words', seen: JSON.stringify(planned.steps), lookAt: 'plan()' });
        held.set(sample, operation.action === 'cancel' ? undefined : operation.document);
      }
    }
  },
};

export const batch: Check = {
  name: 'batch',
  guarantee: 'a full batch of operations returns as many outcomes, in the same order',
  async run(stage) {
    const session = await stage.open();
    // More operations would prove nothing more, and real ERPs are slow.
    const size = Math.min(stage.capabilities.batchMax, 50);
    for (const kind of stage.kinds) {
      const samples = Array.from({ length: size }, (_, n) => stage.sample(kind, n));
      const outcomes = await session.write(samples.map((sample) => operation('create', sample, sample.versions[0])));
      for (const [index, sample] of samples.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== 'created')
          failCheck({
            expected: `outcome ${index + 1} of ${size} is "created" (${kind})`,
            seen: outcomeText(outcome),
            lookAt: 'how write() handles a full batch, and the capability batchMax',
          });
        // Of a large batch, look at the first, the last and some in between.
        if (size > 20 && index % Math.ceil(size / 10) !== 0 && index !== size - 1) continue;
        await stage.expectHeld(sample, sample.versions[0], 'a batch');
        const [held] = await stage.target.held(sample.versions[0]);
        if (held?.reference !== referenceOf(outcome))
          failCheck({
            expected: `outcome ${index + 1} of ${size} is that of operation ${index + 1}: ${held?.reference}`,
            seen: outcomeText(outcome),
            lookAt: 'the order of the outcomes: that of the operations, not that in which the ERP has answered',
          });
      }
    }
  },
};

export const poisoned: Check = {
  name: 'poisoned record',
  guarantee:
    'a record that the ERP refuses is rejected alone, in the ERP’s words; the rest of its batch is written once',
  async run(stage) {
    const { poison } = stage.target;
    if (!poison) missingMember('poison', 'poisoned record', 'the ERP refuses no record');
    const session = await stage.open();
    let refused = 0;
    for (const kind of stage.kinds) {
      const size = Math.min(stage.capabilities.batchMax, 5);
      const samples = Array.from({ length: size }, (_, n) => stage.sample(kind, n));
      const bad = Math.floor(size / 2);
      const whole = samples[bad]?.versions[0] as Document;
      // The ERP refuses no document of this kind.
      if (isDeepStrictEqual(poison(whole), whole)) continue;
      refused += 1;
      const operations = samples.map((sample, index) =>
        operation('create', sample, index === bad ? poison(sample.versions[0]) : sample.versions[0]),
      );
      const outcomes = await session.write(operations);
      for (const [index, sample] of samples.entries()) {
        const outcome = outcomes[index];
        if (index !== bad) {
          if (outcome?.status !== 'created')
            failCheck({
              expected: `a ${kind} document beside one that is refused is "created"`,
              seen: outcomeText(outcome),
              lookAt:
                'how a batch continues after one record is refused: a transaction or request for each, or a second attempt without it',
            });
          await stage.expectHeld(sample, sample.versions[0], 'another of its batch was refused');
          continue;
        }
        const isRefused = outcome?.status === 'rejected' && outcome.error.type === 'data';
        if (!isRefused || !/\S\s+\S/.test(outcome.error.message))
          failCheck({
            expected: `a ${kind} document that the ERP refuses is "rejected", data, with the ERP’s words`,
            seen: outcomeText(outcome),
            lookAt: 'the answer in which the ERP refuses it: it has to become a DataError, whatever its status',
          });
        await withdrawAsBridge(stage, session, sample, outcome);
        await stage.expectHeld(sample, undefined, 'it was refused, and withdrawn');
      }
    }
    if (refused === 0)
      missingMember('poison', 'poisoned record', 'the ERP refuses no record', 'a poison() that changes no document');
  },
};
