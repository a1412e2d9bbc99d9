import { z } from 'zod';
import { Decimal } from '#contract/decimal.ts';
import { putScenarioRequest, savedScenario } from '#contract/desk.ts';
import type { Issue } from '#contract/issue.ts';
import { text } from '#contract/scalars.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { throwIssues } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';
import { repeated } from '../domain/issue.ts';
import { saveScenarios } from '../events/scenario-store.ts';
import { deskCommand } from './command.ts';

const scenarioPath = z.object({ name: text(255, 1) });

/**
 * PUT scenario: saves a scenario, replacing its awards. The shares of a lot add up to at most 1; only standing bids can
 * be awarded.
 */
export function putScenario({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'scenario',
    method: 'PUT',
    path: '/scenarios/:name',
    body: putScenarioRequest,
    summary: 'Save a scenario',
    answers: { 200: savedScenario },
    clock,
    run: async ({ event, body, params, unit }) => {
      const { name } = parseInput(scenarioPath, params, 'The path');
      const lotIds = new Map(event.lots.map((lot) => [lot.name, lot.id]));
      const supplierIds = new Map(event.invitations.map(({ externalId, supplierId }) => [externalId, supplierId]));
      const standing = await standingBids(unit.tx, event.id);
      const issues: Issue[] = [];
      const shares = new Map<string, Decimal>();
      const awards = body.awards.flatMap((award, index) => {
        const lotId = lotIds.get(award.lot);
        const supplierId = supplierIds.get(award.supplier);
        const path = `awards[${index}]`;
        if (!lotId) issues.push({ path: `${path}.lot`, message: `there is no lot "${award.lot}"` });
        else if (!supplierId || !standing.has(`${lotId} ${supplierId}`))
          issues.push({
            path: `${path}.supplier`,
            message: `"${award.supplier}" has no bid that stands for lot "${award.lot}"`,
          });
        const total = (shares.get(award.lot) ?? new Decimal(0)).plus(award.share_awarded);
        shares.set(award.lot, total);
        if (total.greaterThan(1))
          issues.push({
            path: `${path}.share_awarded`,
            message: `the shares of lot "${award.lot}" add up to more than 1`,
          });
        return lotId && supplierId ? [{ lotId, supplierId, share: award.share_awarded }] : [];
      });
      const pairs = body.awards.map(({ lot, supplier }) => JSON.stringify([lot, supplier]));
      const repeats = repeated(pairs, (index) => `awards[${index}]`, 'names the lot and supplier of an earlier entry');
      throwIssues([...issues, ...repeats], ({ path, message }) => `The scenario is not valid: ${path}: ${message}.`);
      await saveScenarios(unit.tx, event.id, [{ name, awards }]);
      return { status: 200, body: { name, awards: body.awards } };
    },
  });
}

/**
 * The standing bids as texts `<lot id> <supplier id>`. Their values are not loaded: an event may have hundreds of
 * thousands of bids.
 */
async function standingBids(tx: Sql, eventId: string): Promise<Set<string>> {
  const rows = await tx.query<{ bid: string }>(
    `select lot_id || ' ' || supplier_id as bid from service.bids where event_id = $1 and cost is not null`,
    [eventId],
  );
  return new Set(rows.map(({ bid }) => bid));
}
