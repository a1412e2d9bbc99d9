/**
 * Flows of which the configuration and the database do not agree about who is live. A file can be old: a process that
 * starts with the configuration of before a promotion must not bring the replaced flow back, and a shadow must not become
 * live because a line was deleted. So the database decides, `bridge promote` alone changes it, and a process whose file
 * says something else sends nothing of that flow and says what to change.
 *
 * | the file says | the database says         | then                                               |
 * |---------------|---------------------------|----------------------------------------------------|
 * | live          | a shadow                  | held until `bridge promote`                        |
 * | live          | replaced by another flow  | held: an old file                                  |
 * | a shadow      | live, by a promotion      | held: an old file; others go on with it            |
 * | a shadow      | live, never promoted      | it becomes a shadow: a person stops its deliveries |
 */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FlowSettings } from '../settings.ts';

/** A flow of the configuration of which this process sends nothing, and why. */
export interface HeldFlow {
  readonly flow: string;
  readonly why: string;
}

/** What the database says of a flow. */
export interface FlowRole {
  readonly name: string;
  readonly fingerprint: string;
  readonly connector: string | null;
  readonly isLive: boolean;
  readonly isShadow: boolean;
  /** The live flow that a shadow was compared with last. */
  readonly beside: string | null;
  readonly sameErp: boolean;
  readonly promoted: Timestamp | null;
  readonly replacedBy: string | null;
}

/** Returns every flow that was ever registered, by its name. */
export async function readFlowRoles(sql: Sql): Promise<Map<string, FlowRole>> {
  const rows = await sql.query<FlowRole>(
    `select name, fingerprint, connector, kinds <> '{}' as "isLive", shadow_kinds <> '{}' as "isShadow", beside,
       same_erp as "sameErp", promoted, replaced_by as "replacedBy" from bridge.flows`,
  );
  return new Map(rows.map((row) => [row.name, row]));
}

/** Returns why nothing of this flow is sent from here; undefined where file and database agree. */
export function whyHeld(
  { name, shadow }: Pick<FlowSettings, 'name' | 'shadow'>,
  role: FlowRole | undefined,
): HeldFlow | undefined {
  if (!role) return undefined;
  if (!shadow && role.isShadow)
    return {
      flow: name,
      why: `it was a shadow, and the configuration makes it live: agree to that with bridge promote ${name}`,
    };
  if (!shadow && role.replacedBy !== null)
    return {
      flow: name,
      why: `${role.replacedBy} has taken its place: delete it from the configuration, or give it shadow: true`,
    };
  if (shadow && role.isLive && role.promoted !== null)
    return {
      flow: name,
      why: `it was promoted at ${role.promoted}, and this configuration is older: delete shadow: true from it`,
    };
  return undefined;
}
