/** What a connector author imports: `import { … } from 'sourcing-bridge/connector'`. */

export { replaceFile } from '#platform/durable-file.ts';
export { AppError } from '#platform/errors.ts';
export {
  type Capabilities,
  type CheckResult,
  type Connector,
  type ConnectorContext,
  defineConnector,
  type Found,
  type Operation,
  type Outcome,
  type OutcomeError,
  type Session,
} from './connector.ts';
export { type AwardDocument, type AwardLine, awardDocument, type Document, type DocumentKind } from './documents.ts';
