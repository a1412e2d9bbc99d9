/** What a comparison may find. */

/**
 * - `changed`: the ERP holds another value. `missing`: it has no such object. `cancelled`: it was cancelled there.
 * - `orphaned`: it was withdrawn, and the ERP holds it all the same.
 * - `unclear`: it could not be found out. `not compared`: the connector, or what the bridge kept, does not allow it.
 */
export const findingNames = ['changed', 'missing', 'cancelled', 'orphaned', 'unclear', 'not compared'] as const;
export type FindingName = (typeof findingNames)[number];
