/** What the audit log says of one call: what was done, on which object, with which of the body's members. */
import { type ActionOrigin, type ActionSubject, recordAction } from '#platform/audit-log.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Answer } from '#platform/http/endpoint.ts';
import { type AuditedCall, auditedCalls } from './audited-calls.ts';

interface CallFacts {
  readonly endpoint: { readonly method: string; readonly path: string };
  readonly params: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Longer lists are recorded by their length alone. */
const listMax = 50;

/** Returns what a call does; undefined when calls of this endpoint are not in the audit log. */
export function auditSubjectOf({ endpoint, params, body }: CallFacts, answer?: Answer): ActionSubject | undefined {
  const audited = auditedCalls[`${endpoint.method} ${endpoint.path}`];
  if (!audited) return undefined;
  const { [audited.parameter ?? '']: inPath, ...rest } = params;
  const id = inPath ?? madeBy(answer);
  // Of `/admin/organisations/:id/api-keys` the organisation is a detail.
  const { id: owner, ...others } = rest;
  const details = { ...(owner !== undefined && { organisation: owner }), ...others, ...membersOf(body, audited) };
  return { what: audited.what, object: id === undefined ? null : `${audited.object} ${id}`, details };
}

/** Appends the call in the transaction of its change: either both are there, or neither is. */
export async function recordCall(
  tx: Sql,
  clock: Clock,
  by: ActionOrigin & { readonly organisationId?: string },
  subject: ActionSubject,
): Promise<void> {
  const { who, from, organisationId } = by;
  const details = { ...(organisationId !== undefined && { organisation: organisationId }), ...subject.details };
  await recordAction(tx, 'service', {
    who,
    from,
    ...subject,
    details,
    when: timestampNow(clock),
    outcome: 'allowed',
  });
}

/** The id in the answer of a call that makes something. */
function madeBy(answer: Answer | undefined): string | undefined {
  const { id, uuid } = (answer?.body ?? {}) as { id?: unknown; uuid?: unknown };
  return [id, uuid].find((value) => typeof value === 'string');
}

function membersOf(body: unknown, { shown = [] }: AuditedCall): Record<string, unknown> {
  if (typeof body !== 'object' || body === null) return {};
  const members = Object.entries(body).filter(([name, value]) => shown.includes(name) && value !== undefined);
  return Object.fromEntries(
    members.map(([name, value]) => [
      name,
      Array.isArray(value) && value.length > listMax ? `${value.length} entries` : value,
    ]),
  );
}
