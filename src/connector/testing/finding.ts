/** How a check fails, or reports that it does not apply. */
import { AssertionError } from 'node:assert';
import type { ConformanceTarget } from './target.ts';

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

/** What a check does through the session, and what the capabilities say of it: both are there, or none. */
export function needCall<Call>(call: Call | undefined, isDeclared: boolean, name: string, capability: string): Call {
  if (!call && !isDeclared) throw new NotApplicable(`the connector has no ${name}()`);
  if (!call || !isDeclared)
    failCheck({
      expected: `a session with ${name}(), and ${capability} in the capabilities`,
      seen: 'only one of them',
      lookAt: `capabilities.${capability}`,
    });
  return call;
}

/** A member of the target without which a check would prove nothing; `what` says what it does. */
export function needMember<Name extends keyof ConformanceTarget>(
  target: ConformanceTarget,
  name: Name,
  what: string,
): NonNullable<ConformanceTarget[Name]> {
  const member = target[name];
  if (member === undefined)
    failCheck({ expected: `target.${name} ${what}`, seen: 'none', lookAt: 'the argument of conformance()' });
  return member;
}
