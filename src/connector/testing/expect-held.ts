/** Fails a check when the ERP does not hold what was written. */
import type { Document } from '#connector/documents.ts';
import { type Compared, differencesOf } from './compare.ts';
import { failCheck } from './finding.ts';
import type { Sample } from './sample-documents.ts';
import type { ConformanceTarget, HeldObject } from './target.ts';

const mappingHint = 'the mapping of these members, and held() of the conformance test';

/**
 * Fails the check unless the ERP holds exactly this version, once; for undefined, unless it holds nothing. The message
 * names what happened before (`when`) and where the author should look (`lookAt`).
 */
export async function expectHeld(
  target: ConformanceTarget,
  sample: Sample,
  version: Document | undefined,
  { when, lookAt = mappingHint }: { when: string; lookAt?: string | undefined },
): Promise<Compared> {
  const held = await target.held(version ?? sample.versions[0]);
  const where = `${sample.kind} ${sample.key}`;
  if (held.length !== (version === undefined ? 0 : 1))
    failCheck({
      expected: `the ERP holds ${version === undefined ? 'nothing' : 'one object'} for ${where} after ${when}`,
      seen: `${held.length} (${held.map(({ reference }) => reference).join(', ')})`,
      lookAt: countHint(held.length, version),
    });
  const [object] = held;
  const { differences, compared } = differencesOf(object?.document, version);
  if (differences.length > 0)
    failCheck({
      expected: `the ERP holds ${where} as it was written last, after ${when}`,
      seen: differences.slice(0, 10).join('\n          '),
      lookAt,
    });
  if (version) expectBytes(sample, object, `${where} after ${when}`);
  return compared;
}

function countHint(count: number, version: Document | undefined): string {
  if (count > 1) return 'how a create recognises the object of an earlier attempt: the declared idempotency';
  if (version === undefined)
    return 'whether cancel reads its answer before it reports that it is done, what it does in the ERP, and whether held() leaves out withdrawn objects';
  return 'whether the outcome is returned before the ERP has confirmed the write, and whether held() finds the object';
}

function expectBytes({ bytes }: Sample, object: HeldObject | undefined, where: string): void {
  if (!bytes || !object?.bytes || Buffer.compare(object.bytes, bytes) === 0) return;
  failCheck({
    expected: `the ERP holds the ${bytes.length} bytes of ${where}`,
    seen: `${object.bytes.length} other bytes`,
    lookAt: 'how bytes are sent: they are not text',
  });
}
