/**
 * Takes the prices out of what a viewer without prices gets. It works on whole answers, after the handler: a member that
 * is added to an answer later is cleaned by its name, and no handler can forget it.
 */

/** Members that hold money, or a row of the bid sheet or of a mapping, where any column may be a price. */
const priceMembers = new Set([
  'amount',
  'awarded_cost',
  'bids',
  'cost',
  'deliveredValue',
  'erpValue',
  'exchange_rates',
  'fields',
  'historic_cost',
  'savings',
  'target_price',
  'total_cost',
  'unit_price',
  'values',
]);

/** Members with sentences of an ERP, of a connector or of the bridge, which may name an amount. */
const sentenceMembers = new Set([
  'example',
  'lastError',
  'message',
  'note',
  'reason',
  'steps',
  'text',
  'why',
  'differences',
]);

/** A number with decimals, or beside a currency code. */
const moneyIn = /\b[A-Z]{3}\s*\d[\d.,' ]*|\d[\d.,' ]*\s*\b[A-Z]{3}\b|\d+(?:[.,']\d+)+(?![\d:])/g;

/** Returns the answer without prices. Names, quantities, shares and references stay. */
export function withoutPrices(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(withoutPrices);
  if (typeof answer !== 'object' || answer === null) return answer;
  const members = Object.entries(answer)
    .filter(([name]) => !priceMembers.has(name))
    .map(([name, value]) => [name, sentenceMembers.has(name) ? withoutMoney(value) : withoutPrices(value)]);
  const cleaned: Record<string, unknown> = Object.fromEntries(members);
  // An RFI answer in a currency is an amount.
  if ('currency' in cleaned && typeof cleaned['value'] === 'string') delete cleaned['value'];
  return cleaned;
}

function withoutMoney(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(moneyIn, '•');
  return Array.isArray(value) ? value.map(withoutMoney) : withoutPrices(value);
}
