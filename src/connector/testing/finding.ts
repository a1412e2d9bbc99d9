/** How a check fails, or reports that it does not apply. */
import { AssertionError } from 'node:assert';

export interface Finding {
  readonly expected: string;
  readonly seen: string;
  /** Where the connector's author should look. */
  readonly lookAt: string;
}

/** A check has failed. It has its own class because a connector may throw an AssertionError, too. */
export class CheckFailure extends AssertionError {
  /** The stack begins at the caller of `stackStartFn`. */
  constructor({ expected, seen, lookAt }: Finding, stackStartFn?: (finding: Finding) => never) {
    super({
      message: `Expected: ${expected}\nSeen:     ${seen}\nLook at:  ${lookAt}`,
      ...(stackStartFn ? { stackStartFn } : {}),
    });
  }
}

/** Throws CheckFailure. */
export function failCheck(finding: Finding): never {
  throw new CheckFailure(finding, failCheck);
}

/**
 * Fails a check that needs a member of the target which is missing: without it the check would prove nothing. `where`
 * completes the sentence that names the alternative.
 */
export function missingMember(member: string, check: string, where: string, seen = 'neither'): never {
  return failCheck({
    expected: `target.${member}; or, where ${where}, notApplicable: { '${check}': '<why>' }`,
    seen,
    lookAt: 'the argument of conformance()',
  });
}

/** The check does not apply to this connector or ERP; the message is the reason. */
export class NotApplicable extends Error {
  override readonly name = 'NotApplicable';
}
