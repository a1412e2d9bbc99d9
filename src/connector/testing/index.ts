/** All that the tests of a connector import: `import { conformance } from 'sourcing-bridge/connector/testing'`. */

export { conformance } from './conformance.ts';
export * from './target.ts';
export * from './test-context.ts';
