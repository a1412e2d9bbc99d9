/** Every call of the console's JSON API, in one table. */
import { comparisonCall, comparisonReportCall, comparisonsCall, repairCall } from './comparisons.ts';
import type { ConsoleApiDeps, ConsoleEndpoint } from './console-call.ts';
import { deadLettersCall, replayDeadLettersCall, replayDocumentCall, stopReplayCall } from './dead-letters.ts';
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
import { eventsCall, suppliersCall } from './list-subjects-call.ts';
import { planCall } from './plan-documents.ts';
import { actionsCall } from './read-actions.ts';
import { chartsCall } from './read-charts.ts';
import { doctorCall } from './read-doctor.ts';
import { documentCall, versionCall } from './read-document.ts';
import { overviewCall } from './read-overview.ts';
import { settingsCall } from './read-settings.ts';
import { viewerCall } from './read-viewer.ts';
import { searchCall } from './search-documents.ts';
import { storyCall } from './start-story.ts';
import {
  ledToCall,
  notificationsCall,
  registerWebhookCall,
  rotateWebhooksCall,
  testWebhooksCall,
  webhooksCall,
} from './webhooks.ts';

export function consoleApi(deps: ConsoleApiDeps): ConsoleEndpoint[] {
  return [
    viewerCall,
    overviewCall,
    chartsCall,
    searchCall,
    documentsCall,
    documentCall,
    versionCall,
    replayDocumentCall,
    eventsCall,
    suppliersCall,
    deadLettersCall,
    replayDeadLettersCall,
    stopReplayCall,
    planCall,
    notificationsCall,
    ledToCall,
    webhooksCall,
    registerWebhookCall,
    testWebhooksCall,
    rotateWebhooksCall,
    feedsCall,
    backfillCall,
    cancelBackfillCall,
    auditCall,
    comparisonsCall,
    comparisonCall,
    comparisonReportCall,
    repairCall,
    flowsCall,
    tryMappingCall,
    pauseCall,
    resumeCall,
    intakesCall,
    intakeCall,
    intakePlanCall,
    requisitionsCall,
    requisitionCall,
    pauseIntakeCall,
    resumeIntakeCall,
    replayIntakeCall,
    readIntakeCall,
    linkIntakeCall,
    doctorCall,
    settingsCall,
    actionsCall,
    storyCall,
  ].map((make) => make(deps));
}
