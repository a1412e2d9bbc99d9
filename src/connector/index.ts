/** All that a connector imports: `import { … } from 'sourcing-bridge/connector'`. */

export { z } from 'zod';
export { type Clock, systemClock } from '#platform/clock.ts';
export { replaceFile } from '#platform/durable-file.ts';
export * from './acknowledgements.ts';
export * from './amounts.ts';
export * from './answers-page.ts';
export {
  type Capabilities,
  type CheckResult,
  type Connector,
  type ConnectorContext,
  type ConnectorLog,
  defineConnector,
  type FileContent,
  type FirstTest,
  type Found,
  type Operation,
  type Outcome,
  type OutcomeError,
  type PlannedOperation,
  type Session,
  type Unclear,
} from './connector.ts';
export * from './dates.ts';
export * from './document-paths.ts';
export * from './documents.ts';
export * from './errors.ts';
export * from './file-bytes.ts';
export * from './http.ts';
export * from './http-auth.ts';
export * from './http-messages.ts';
export * from './human-text.ts';
export * from './kinds.ts';
export * from './numbers.ts';
export * from './outcomes.ts';
export { parseWithDigits, placesOfFlag } from './places.ts';
export * from './read-back.ts';
export * from './read-from.ts';
export * from './records.ts';
export * from './request-limits.ts';
export * from './requisition-places.ts';
export { Secret, secret } from './settings.ts';
export * from './supplier-places.ts';
export * from './walk-by-id.ts';
