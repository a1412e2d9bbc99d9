/** The record of the awards feed. Source: API document, "LotAward". */
import { z } from 'zod';
import { bidSheetValue } from './bid.ts';
import { decimalText, timestamp, uuid } from './scalars.ts';

export const awardEntry = z
  .looseObject({
    supplier: uuid,
    share_awarded: decimalText.describe('Decimal fraction: "0.6" is 60 % of the lot.'),
    cost: decimalText.describe("For the share, in the event's primary currency."),
    savings: decimalText.optional().describe('`historic_cost` less `cost`.'),
    historic_cost: decimalText.optional().describe('For the share; left out where there is none.'),
    bid_sheet_values: z.array(bidSheetValue),
  })
  .meta({ id: 'AwardEntry' });

export const lotAward = z
  .looseObject({
    id: uuid,
    sourcing_event: uuid,
    sourcing_request: uuid.optional(),
    lot_name: z.string(),
    scenario_name: z.string().optional(),
    awards: z.array(awardEntry).describe('Empty: no supplier won this lot, or its award was taken back.'),
    modified: timestamp,
  })
  .meta({ id: 'LotAward' });
