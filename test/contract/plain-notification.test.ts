import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { notification, plainNotification } from '#contract/webhook.ts';

const time = fc.constantFrom(
  '2030-01-01T00:00:00Z',
  '2030-01-01T02:00:00+02:00',
  '2030-02-30T00:00:00Z',
  'soon',
  '',
  1,
);
const payload = fc.constantFrom<unknown>(undefined, null, [], {}, { sourcing_event: 'x' }, 'text', 3);

test('the quick form of a notification reads what the schema reads, and leaves everything else to it', () => {
  let read = 0;
  fc.assert(
    fc.property(
      fc.record(
        {
          trigger: fc.oneof(fc.string(), fc.integer()),
          triggers: fc.constantFrom(undefined, 'X'),
          timestamp: time,
          payload,
        },
        { requiredKeys: [] },
      ),
      (value) => {
        const quick = plainNotification(value);
        if (quick === undefined) return;
        read += 1;
        const { trigger, timestamp } = notification.parse(value);
        expect(quick).toEqual({ trigger, timestamp });
      },
    ),
    { numRuns: 2_000 },
  );
  expect(read).toBeGreaterThan(20);
  for (const value of [undefined, null, 'text', 1, []]) expect(plainNotification(value)).toBeUndefined();
});
