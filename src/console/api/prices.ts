/**
 * Takes the prices out of what a viewer without prices gets. It works on whole answers, after the handler, by a list of
 * what may be shown: a member that is added to an answer later is missing for this role until somebody has listed it, and
 * no handler can forget it. Free text is not shown: an ERP's words may name a price in any form.
 */

/** Names, references, times, states, counts and quantities; and the objects and lists around them. */
const shownMembers = new Set(
  `
  action actions answered archive archives asDelivered asked askedBy at attempt attempts audited audits awards
  awarded_lot_count backfills backlog before categories category changed changedAt changes circuitUntil closed code
  columns commitsLost comparisons conditions connector connectors contact contacts contentHash count counts created
  creates cutOff cutOffUntil deadLetters deadSince delivered deliveries differing document documents due email end
  ended ends entries erpKey errorType event eventName eventReference events eventsDue examined external_id failures
  failuresInRow feed feeds field file file_name files finding findings finished first flow flowNames flows from
  groups handedOver hasMore host hours id idempotencyKey identifier ids input_type inStep inSubmissions intake
  intakes is_test isDelivered isDue isTest key kind lag last lastPull lastRead lastUsed lateArrivals latenessSeconds
  latest level line lines list listable listPulled lost lostCommits lot lot_count lots made method missing modified
  most name newest next nextEvent nextPull nextRead nextSend nextTry notification notifications now number object
  oldestSubmission oldestWaiting orderBroken ordered outcome owns parent pausedAt pausedKind pollSeconds program
  published pull quantity question read readFailures received record reference reference_id refusals refused
  repairable requestId requisition requisitions retrying role round rounds rows run runs scenario seconds
  secret seen seesPrices sent service sessions settings share since source sourceNames sources sourcing_request
  sourcingEvent stalled started starts state status step stillSeconds stopped stream stuck subject subjects
  submission submissions submitted supplier supplierExternalId supplierName suppliers tags timeline to toCompare
  total trigger triggers type uncertain unprovedSince unreadable until updates uri url uuid version versions waiting
  waitingSince watermark webhooks what when who
  `
    .trim()
    .split(/\s+/),
);

/** What an ERP, a service or a person has written, or the bridge of their words: the pages say that it is not shown. */
const sentences = new Set([
  'deadWhy',
  'example',
  'lastError',
  'listError',
  'message',
  'note',
  'orderBrokenWhy',
  'pausedReason',
  'readError',
  'reason',
  'sendError',
  'stalledWhy',
  'submissionError',
  'summary',
  'text',
  'title',
  'todo',
  'unfilteredWhy',
  'warning',
  'why',
]);

const notShown = '(not shown to a role without prices)';

/** Returns the answer with what this role may see. */
export function withoutPrices(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(withoutPrices);
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(
    Object.entries(answer).flatMap(([name, value]) => {
      if (sentences.has(name)) return [[name, value === null ? null : notShown]];
      if (name === 'connectors') return [[name, value]];
      return shownMembers.has(name) || typeof value === 'boolean' || value === null
        ? [[name, withoutPrices(value)]]
        : [];
    }),
  );
}
