/**
 * Rate limits: one bucket for each row, counted per API key in a sliding window. Source: API document, "Limits"; rows
 * that it does not have: decisions, "Feeds".
 */
import { z } from 'zod';

const minute = 60;
const hour = 3_600;
const day = 86_400;

export interface Window {
  readonly requests: number;
  readonly seconds: number;
}

export interface Limit {
  readonly burst: Window;
  readonly sustained: Window;
}

export const limits = {
  suppliers: { burst: { requests: 30, seconds: minute }, sustained: { requests: 600, seconds: hour } },
  supplier_changes_read: { burst: { requests: 30, seconds: minute }, sustained: { requests: 600, seconds: hour } },
  supplier_changes_write: { burst: { requests: 60, seconds: hour }, sustained: { requests: 500, seconds: day } },
  jobs_write: { burst: { requests: 150, seconds: hour }, sustained: { requests: 750, seconds: day } },
  jobs_read: { burst: { requests: 30, seconds: minute }, sustained: { requests: 600, seconds: hour } },
  /** A bucket for each feed. */
  feeds: { burst: { requests: 60, seconds: minute }, sustained: { requests: 43_200, seconds: day } },
  webhooks: { burst: { requests: 30, seconds: minute }, sustained: { requests: 600, seconds: hour } },
  file_links: { burst: { requests: 30, seconds: minute }, sustained: { requests: 600, seconds: hour } },
  /** All calls under `/desk`. Not in the documents: what people do on screens comes nowhere near it. */
  desk: { burst: { requests: 1_200, seconds: minute }, sustained: { requests: 200_000, seconds: day } },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof limits;

const requests = z.int().min(1).max(1_000_000_000);
const change = z.strictObject({ burst: requests, sustained: requests }).meta({ id: 'LimitChange' });

/** An organisation may have its own numbers of requests; the lengths of the windows are fixed. */
export const rateLimitsRequest = z
  .strictObject({
    enabled: z.boolean().optional(),
    suppliers: change.optional(),
    supplier_changes_read: change.optional(),
    supplier_changes_write: change.optional(),
    jobs_write: change.optional(),
    jobs_read: change.optional(),
    feeds: change.optional(),
    webhooks: change.optional(),
    file_links: change.optional(),
  } satisfies Record<Exclude<LimitName, 'desk'> | 'enabled', z.ZodType>)
  .meta({ id: 'RateLimitsRequest' });

/** How many webhooks an organisation may have unless the operator says otherwise. */
export const webhooksMaxDefault = 50;

/** The most bytes that the operator can allow for the files of one organisation. */
const fileBytesLimit = 2 ** 50;

export const limitsRequest = rateLimitsRequest
  .extend({
    desk: change.optional(),
    webhooks_max: z
      .int()
      .min(0)
      .max(100_000)
      .optional()
      .describe('How many webhooks the organisation may have; `enabled: false` leaves it as it is.'),
    file_bytes_max: z
      .int()
      .min(0)
      .max(fileBytesLimit)
      .optional()
      .describe('How many bytes the files of the organisation may have together; `enabled: false` leaves it as it is.'),
  })
  .meta({ id: 'LimitsRequest' });

export type LimitsRequest = z.infer<typeof limitsRequest>;

const effective = z.looseObject({ burst: z.int(), sustained: z.int() }).meta({ id: 'EffectiveLimit' });

/** The limits in force: the organisation's own, else those of the table above. */
export const limitsAnswer = z
  .looseObject({
    enabled: z.boolean(),
    suppliers: effective,
    supplier_changes_read: effective,
    supplier_changes_write: effective,
    jobs_write: effective,
    jobs_read: effective,
    feeds: effective,
    webhooks: effective,
    file_links: effective,
    desk: effective,
    webhooks_max: z.int(),
    file_bytes_max: z.int(),
  } satisfies Record<LimitName | 'enabled' | 'webhooks_max' | 'file_bytes_max', z.ZodType>)
  .meta({ id: 'Limits' });

/**
 * Returns the limit of this name for an organisation, whose own numbers replace those of the table; undefined if its limits
 * are switched off.
 */
export function effectiveLimit(
  own: LimitsRequest,
  name: LimitName,
  table: Readonly<Record<LimitName, Limit>> = limits,
): Limit | undefined {
  if (own.enabled === false) return undefined;
  const { burst, sustained } = table[name];
  return {
    burst: { ...burst, requests: own[name]?.burst ?? burst.requests },
    sustained: { ...sustained, requests: own[name]?.sustained ?? sustained.requests },
  };
}
