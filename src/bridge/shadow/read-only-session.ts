import type { Session } from '#connector/connector.ts';
import { AppError } from '#platform/errors.ts';

/**
 * Returns the session of a shadow: whatever goes wrong elsewhere, no call of it reaches the connector that could change
 * the ERP. Its `write` and `acknowledge` reject without calling the connector.
 */
export function readOnlySession(session: Session, flow: string): Session {
  const refuse = async (): Promise<never> => {
    throw new AppError('internal', `Flow "${flow}" is a shadow: it writes nothing.`);
  };
  return {
    check: () => session.check(),
    get plan() {
      return session.plan?.bind(session) as NonNullable<Session['plan']>;
    },
    write: refuse,
    acknowledge: refuse,
    lookup: (documents, signal) => session.lookup(documents, signal),
    readBack: (deliveries, signal) => {
      if (!session.readBack) throw new AppError('internal', `The connector of "${flow}" does not read back.`);
      return session.readBack(deliveries, signal);
    },
    close: () => session.close(),
  };
}
