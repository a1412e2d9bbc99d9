/** Remembers notifications in Redis or Valkey, for any number of processes. Each step is one script, so it is atomic. */
import { aFunction, aString, checkOptions } from './check-options.ts';
import { type NotificationStore, type StoreTimes, storeTimes, timeChecks } from './notification-store.ts';

export interface RedisStoreOptions extends StoreTimes {
  /**
   * Sends one command. With ioredis: `(command, ...args) => redis.call(command, ...args)`; with node-redis:
   * `(...command) => client.sendCommand(command)`.
   */
  readonly send: (command: string, ...args: string[]) => Promise<unknown>;
  /** The beginning of each key. */
  readonly prefix?: string;
}

const begin = `local held = redis.call('get', KEYS[1])
if held == 'done' then return 'done' end
if held then return 'running' end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'new'`;
const finish = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], 'done', 'PX', ARGV[2]) end`;
const abandon = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end`;

export function redisStore(options: RedisStoreOptions): NotificationStore {
  checkOptions('redisStore', options, { ...timeChecks, send: aFunction, prefix: aString }, ['send']);
  const { send, prefix = 'notification:' } = options;
  const { leaseMs, rememberMs } = storeTimes(options);
  const run = (script: string, id: string, ...args: string[]) => send('EVAL', script, '1', prefix + id, ...args);
  return {
    begin: async (id, token) => {
      const state = String(await run(begin, id, token, String(leaseMs)));
      // An answer that is none of ours must not pass for a handled notification.
      if (state === 'new' || state === 'running' || state === 'done') return state;
      throw new Error(`Redis answered ${JSON.stringify(state.slice(0, 100))} to the script of the notification store.`);
    },
    finish: async (id, token) => void (await run(finish, id, token, String(rememberMs))),
    abandon: async (id, token) => void (await run(abandon, id, token)),
  };
}
