import { awardRequest, chosenScenario } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { historyOfAward } from '../domain/history.ts';
import { appendHistory } from '../events/history-store.ts';
import { loadScenario } from '../events/scenario-store.ts';
import { deskCommand } from './command.ts';

/**
 * POST award: chooses the scenario whose awards are published when the event closes; null removes the choice. Updates
 * no feed.
 */
export function awardEvent({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'award',
    method: 'POST',
    path: '/award',
    body: awardRequest,
    summary: 'Choose the scenario that closing publishes',
    answers: { 200: chosenScenario },
    clock,
    run: async ({ event, body, unit, now }) => {
      if (body.scenario !== null && !(await loadScenario(unit.tx, event.id, body.scenario)))
        throw new AppError('conflict', 'This event has no such scenario. Save it first.');
      await unit.tx.query('update service.sourcing_events set awarded_scenario = $2 where id = $1', [
        event.id,
        body.scenario,
      ]);
      await appendHistory(unit.tx, event, historyOfAward(event.awardedScenario, body.scenario, now));
      return { status: 200, body: { id: event.id, scenario: body.scenario } };
    },
  });
}
