/** Every call of the console's JSON API, in two tables. */
import { createReadingTurns } from '../reading.ts';
import {
  accountCall,
  changePasswordCall,
  endSessionsCall,
  newFactorCall,
  removeFactorCall,
  setFactorCall,
} from './account.ts';
import { comparisonCall, comparisonReportCall, comparisonsCall, repairCall } from './comparisons.ts';
import type { ConsoleApiDeps, ConsoleEndpoint } from './console-call.ts';
import { deadLettersCall, noteDocumentCall, replayDeadLettersCall, replayDocumentCall } from './dead-letters.ts';
import { auditCall, backfillCall, cancelBackfillCall, feedsCall } from './feeds.ts';
import { flowsCall, pauseCall, resumeCall, tryMappingCall } from './flows.ts';
import {
  intakeCall,
  intakePlanCall,
  intakesCall,
  linkIntakeCall,
  pauseIntakeCall,
  readIntakeCall,
  replayIntakeCall,
  requisitionCall,
  requisitionsCall,
  resumeIntakeCall,
} from './intakes.ts';
import { documentsCall } from './list-documents-call.ts';
import { eventsCall, exportAwardsCall } from './list-events-call.ts';
import { planCall } from './plan-documents.ts';
import { actionsCall } from './read-actions.ts';
import { doctorCall } from './read-doctor.ts';
import { documentCall, versionCall } from './read-document.ts';
import { overviewCall } from './read-overview.ts';
import { settingsCall } from './read-settings.ts';
import { viewerCall } from './read-viewer.ts';
import { searchCall } from './search-documents.ts';
import {
  notificationsCall,
  registerWebhookCall,
  rotateWebhooksCall,
  testWebhooksCall,
  webhooksCall,
} from './webhooks.ts';

/** They read the database, and nothing else: over the connections for reading, in the turns of the person who asks. */
const readingCalls = [
  viewerCall,
  overviewCall,
  searchCall,
  documentsCall,
  documentCall,
  versionCall,
  eventsCall,
  exportAwardsCall,
  deadLettersCall,
  notificationsCall,
  feedsCall,
  comparisonsCall,
  comparisonCall,
  comparisonReportCall,
  flowsCall,
  intakesCall,
  intakeCall,
  requisitionsCall,
  requisitionCall,
  settingsCall,
  actionsCall,
  accountCall,
];

/** They change something, or ask a source or an ERP. */
const otherCalls = [
  replayDocumentCall,
  noteDocumentCall,
  replayDeadLettersCall,
  planCall,
  webhooksCall,
  registerWebhookCall,
  testWebhooksCall,
  rotateWebhooksCall,
  backfillCall,
  cancelBackfillCall,
  auditCall,
  repairCall,
  tryMappingCall,
  pauseCall,
  resumeCall,
  intakePlanCall,
  pauseIntakeCall,
  resumeIntakeCall,
  replayIntakeCall,
  readIntakeCall,
  linkIntakeCall,
  doctorCall,
  changePasswordCall,
  newFactorCall,
  setFactorCall,
  removeFactorCall,
  endSessionsCall,
];

export function consoleApi(deps: ConsoleApiDeps): ConsoleEndpoint[] {
  const turns = createReadingTurns();
  const inTurn = (endpoint: ConsoleEndpoint): ConsoleEndpoint => ({
    ...endpoint,
    handle: (call, prepared) => turns.take(call.caller.name, call.caller.left, () => endpoint.handle(call, prepared)),
  });
  return [
    ...readingCalls.map((make) => inTurn(make({ ...deps, database: deps.reading }))),
    ...otherCalls.map((make) => make(deps)),
  ];
}
