/** What a source allows to its API key. */
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { type Limit, type LimitName, limits } from '#contract/limits.ts';

/** The limits of the public service that differ from the contract's. */
const publicLimits: Partial<Record<LimitName, Limit>> = {
  jobs_write: { burst: { requests: 120, seconds: 3_600 }, sustained: { requests: 500, seconds: 86_400 } },
};

/** The limit of this name, by the source's dialect; undefined for a source whose requests are not counted. */
export function sourceLimit(source: Pick<SourceSettings, 'quotas' | 'dialect'>, name: LimitName): Limit | undefined {
  if (!source.quotas.enabled) return undefined;
  return (source.dialect === 'public' ? publicLimits[name] : undefined) ?? limits[name];
}
