/** What a misbehaving source does to one notification. Pure: the same random numbers lead to the same plan. */
import type { WebhookQuirks } from './feed-quirks.ts';
import type { Fraction } from './hostile-versions.ts';

export interface NotificationPlan {
  /** It is never sent. */
  readonly isLost: boolean;
  readonly copies: number;
  readonly delayMs: number;
  /** It is sent only after the one that follows. */
  readonly isHeld: boolean;
  /** A changed copy follows, with the signature of the original. */
  readonly isForged: boolean;
}

export function planNotification(quirks: WebhookQuirks, random: Fraction): NotificationPlan {
  return {
    isLost: random() < quirks.lost,
    copies: random() < quirks.twice ? 2 : 1,
    delayMs: Math.round(random() * quirks.lateMs),
    isHeld: random() < quirks.reordered,
    isForged: random() < quirks.forged,
  };
}
