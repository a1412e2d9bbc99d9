/** What a person adds to `bridge resume` after a pause that needs an agreement; empty for any other pause. */
export function agreementText(pausedKind: string | null): string {
  return pausedKind === 'archives' || pausedKind === 'withdrawals' ? ' --agree, if they are intended' : '';
}

/** What is withdrawn or archived within this time is counted together: a pull of many pages brings it little by little. */
export const guardHours = 24;
