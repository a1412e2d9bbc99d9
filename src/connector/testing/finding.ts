/** What a check says when it fails, or when it does not apply. */
import { AssertionError } from 'node:assert';

export interface Finding {
  readonly expected: string;
  readonly seen: string;
  /** What the connector's author should look at. */
  readonly lookAt: string;
}

/** A check has failed. A class of its own, as a connector may throw an AssertionError, too. */
export class Fault extends AssertionError {
  /** The stack begins where `stackStartFn` was called. */
  constructor({ expected, seen, lookAt }: Finding, stackStartFn?: (finding: Finding) => never) {
    super({
      message: `Expected: ${expected}\nSeen:     ${seen}\nLook at:  ${lookAt}`,
      ...(stackStartFn ? { stackStartFn } : {}),
    });
  }
}

/** Fails the check. */
export function fault(finding: Finding): never {
  throw new Fault(finding, fault);
}

/** A check that proves nothing without a member of the target fails, unless its author says why it does not apply. */
export function missingMember(member: string, check: string, where: string, seen = 'neither'): never {
  return fault({
    expected: `target.${member}; or, where ${where}, notApplicable: { '${check}': '<why>' }`,
    seen,
    lookAt: 'what conformance() is given',
  });
}

/** The check does not apply to this connector or ERP. */
export class NotApplicable extends Error {
  override readonly name = 'NotApplicable';
}
