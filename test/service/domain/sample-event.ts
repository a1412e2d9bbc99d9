/** A sourcing event as it is loaded, for tests of pure functions: an empty draft with the given changes. */
import type { Invitation, SourcingEvent } from '#service/domain/sourcing-event.ts';

export const created = '2030-01-01T00:00:00.000000Z';

export function sampleEvent(changes: Partial<SourcingEvent> = {}): SourcingEvent {
  return {
    id: 'e1',
    organisationId: 'o1',
    name: 'Steel',
    description: '',
    referenceId: null,
    type: 'RFQ',
    status: 'DRAFT',
    primaryCurrency: 'EUR',
    secondaryCurrencies: [],
    tags: [],
    category: null,
    eventContact: null,
    columns: [],
    columnRoles: {},
    globalValues: new Map(),
    primaryCostCalculation: null,
    isTest: false,
    isTemplate: false,
    closeAfterLastRound: false,
    createdBy: { id: 'k1', name: null, email: null },
    created,
    published: null,
    closed: null,
    emptied: null,
    awardedScenario: null,
    bidsBehind: false,
    scenarioCount: 0,
    sourcingRequests: [],
    lots: [],
    rounds: [],
    invitations: [],
    ...changes,
  };
}

/** The invitation of a supplier that has not done anything yet. */
export function sampleInvitation(supplierId: string, changes: Partial<Invitation> = {}): Invitation {
  return {
    supplierId,
    externalId: supplierId.toUpperCase(),
    name: `Supplier ${supplierId}`,
    contacts: [],
    inviteCount: 1,
    accepted: false,
    participated: false,
    lastSuccessfulBid: null,
    lastFailedBid: null,
    lastAccessed: null,
    globalValues: new Map(),
    ...changes,
  };
}
