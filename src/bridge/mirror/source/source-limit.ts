/** What a source allows to its API key. */

import type { SourceSettings } from '#bridge/settings/settings.ts';
import { effectiveLimit, type Limit, type LimitName } from '#contract/limits.ts';

/** The limits of the public service that differ from the contract's. */
const publicLimits: SourceSettings['quotas'] = { jobs_write: { burst: 120, sustained: 500 } };

/** The limit of this name: of the settings, else of the source's dialect; undefined if limits are switched off. */
export function sourceLimit(source: Pick<SourceSettings, 'quotas' | 'dialect'>, name: LimitName): Limit | undefined {
  const { quotas, dialect } = source;
  return effectiveLimit(dialect === 'public' ? { ...publicLimits, ...quotas } : quotas, name);
}
