/** A connector that opens, checks and closes as its settings say: for wrong and unusual behaviour of connectors. */
import { z } from 'zod';
import { defineConnector } from '#connector/connector.ts';
import { secret } from '#connector/settings.ts';
import { AppError } from '#platform/errors.ts';

const settings = z
  .strictObject({
    opens: z
      .enum([
        'well',
        'wrong settings',
        'wrong settings at the second time',
        'fails',
        'never',
        'throws at once',
        'at the second time',
        'refuses',
        'repeats',
        'logs',
      ])
      .default('well'),
    checks: z.enum(['well', 'never', 'throws', 'repeats', 'throws it']).default('well'),
    closes: z.enum(['well', 'never', 'throws']).default('well'),
    password: z.string().default(''),
    pin: secret().optional(),
  })
  .superRefine(({ opens, password }, context) => {
    if (opens === 'refuses') context.addIssue({ code: 'custom', message: `The password ${password} is too short` });
  });

const never = () => new Promise<never>(() => undefined);
let tries = 0;
let wrongTries = 0;

/** @public The bridge loads it by its path. */
// oxlint-disable-next-line import/no-default-export
export default defineConnector({
  name: 'odd',
  settings,
  capabilities: { kinds: ['award'], batchMax: 10, timeoutMs: 1_000, lateEffectMs: 0, idempotency: 'key' },
  open({ opens, checks, closes, password, pin }, { log }) {
    if (opens === 'throws at once') throw new Error('thrown at once');
    return (async () => {
      if (opens === 'wrong settings') throw new AppError('invalid', 'The folder is missing.');
      if (opens === 'repeats') {
        const cause = new Error(`login ${password} failed`);
        throw new AppError('invalid', `The password ${password} is wrong.`, { cause });
      }
      if (opens === 'wrong settings at the second time') {
        wrongTries += 1;
        throw wrongTries === 1 ? new Error('connection refused') : new AppError('invalid', 'The folder is missing.');
      }
      if (opens === 'fails') throw new Error('connection refused');
      if (opens === 'never') return never();
      if (opens === 'logs') {
        const shown = `${pin?.reveal()} and ${password}`;
        log.warn(`logging in with ${shown}`, { shown, deep: { list: [shown] }, err: new Error(`no: ${shown}`), pin });
      }
      tries += 1;
      if (opens === 'at the second time' && tries === 1) throw new Error('connection refused');
      return {
        check: async () => {
          if (checks === 'never') return never();
          if (checks === 'throws') throw new Error('no check');
          if (checks === 'throws it') throw new Error(`The password ${password} is wrong.`);
          if (checks === 'repeats')
            return [{ name: 'login', ok: false, message: `The password ${password} is wrong.` }];
          return [{ name: 'it', ok: true, message: 'It is well.' }];
        },
        write: async (operations) => operations.map(() => ({ status: 'created', reference: '1' })),
        lookup: async () => [],
        close: async () => {
          if (closes === 'never') return never();
          if (closes === 'throws') throw new Error('no close');
        },
      };
    })();
  },
});
