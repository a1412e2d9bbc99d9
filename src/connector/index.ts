/** What a connector author imports: `import { … } from 'sourcing-bridge/connector'`. */

export { replaceFile } from '#platform/durable-file.ts';
export { AppError } from '#platform/errors.ts';
export {
  type Capabilities,
  type CheckResult,
  type Connector,
  type ConnectorContext,
  defineConnector,
  type FileContent,
  type Found,
  type Operation,
  type Outcome,
  type OutcomeError,
  type PlannedOperation,
  type Session,
} from './connector.ts';
export * from './documents.ts';
