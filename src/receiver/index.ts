/** Verify and parse notifications: `import { createReceiver } from 'sourcing-bridge/receiver'`. */

export * from './adapters.ts';
export {
  createReceiver,
  type NotificationReceiver,
  type ReceiverAnswer,
  type ReceiverOptions,
} from './create-receiver.ts';
export { type LambdaAnswer, type LambdaEvent, toLambdaHandler } from './lambda-handler.ts';
export { type MemoryStoreOptions, memoryStore } from './memory-store.ts';
export type { NotificationStore, StoreTimes } from './notification-store.ts';
export type { KnownTrigger, NotificationHandlers, VerifiedNotification } from './notifications.ts';
export { type PostgresStoreOptions, postgresStore, postgresStoreTable } from './postgres-store.ts';
export { type RedisStoreOptions, redisStore } from './redis-store.ts';
