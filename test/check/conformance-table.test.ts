import { describe, expect, test } from 'vitest';
import { type ConformanceResult, renewTables } from '../harness/conformance-table.ts';

const empty = `# Connectors

Before.

<!-- made by npm test: begin -->
<!-- made by npm test: end -->

After.
`;

const acme: ConformanceResult = {
  connector: 'acme',
  against: 'Acme 6.0.29 on PostgreSQL 15.19p1',
  verified: 'real server',
  kinds: ['supplier', 'award'],
  reads: ['supplier', 'requisition'],
  checks: [
    { name: 'a repeated write is one object', result: 'passed' },
    { name: 'a poisoned record fails alone', result: 'not applicable', reason: 'it refuses\nnone | of them' },
    { name: 'a kill is one object', result: 'passed' },
    { name: 'a full batch', result: 'not applicable', reason: 'it refuses none | of them' },
  ],
};
const brick: ConformanceResult = {
  connector: 'brick',
  against: 'a folder',
  verified: 'documentation only',
  kinds: ['file'],
  reads: [],
  checks: [{ name: 'a repeated write is one object', result: 'passed' }],
};

const checks = [
  { name: 'a repeated write is one object', guarantee: 'a write that comes again makes\nno second object' },
  { name: 'a kill is one object', guarantee: 'whatever is killed' },
];
const renew = (document: string, results: readonly ConformanceResult[], connectors: readonly string[]) =>
  renewTables(document, results, { connectors, checks });

const head = `| Connector | \`supplier\` | \`sourcing-event\` | \`quotation\` | \`award\` | \`event-awards\` | \`rfi-answers\` | \`file\` | \`job\` | \`requisition\` | Verified | Against | Conformance |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`;
const acmeRow =
  '| [acme](../connectors/acme/README.md) | ⇄ |   |   | → |   |   |   |   | ← | real server | Acme 6 on PostgreSQL 15 | 2 passed, 2 not applicable |\n';
const brickRow =
  '| [brick](../connectors/brick/README.md) |   |   |   |   |   |   | → |   |   | documentation only | a folder | 1 passed |\n';
const acmeException =
  '| [acme](../connectors/acme/README.md) | Acme 6 on PostgreSQL 15 | a poisoned record fails alone, a full batch | it refuses none / of them |\n';
const both = `# Connectors

Before.

<!-- made by npm test: begin -->

${head}${acmeRow}${brickRow}
The checks of the kit:

| Check | What holds |
| --- | --- |
| a repeated write is one object | a write that comes again makes no second object |
| a kill is one object | whatever is killed |

Checks that do not apply:

| Connector | Against | Checks | Why they do not apply |
| --- | --- | --- | --- |
${acmeException}
<!-- made by npm test: end -->

After.
`;

describe('the tables of connectors', () => {
  test('have a row for each result, with its directions, and one for each check that does not apply', () => {
    expect(renew(empty, [brick, acme], ['acme', 'brick'])).toBe(both);
  });

  test('keep the results that a run could not produce, with their reasons', () => {
    expect(renew(both, [brick], ['acme', 'brick'])).toBe(both);
    expect(renew(both, [], ['acme', 'brick'])).toBe(both);
  });

  test('keep the numbers of a version when another machine has another version', () => {
    const elsewhere = { ...acme, against: 'Acme 6.2 on PostgreSQL 18' };
    expect(renew(both, [elsewhere, brick], ['acme', 'brick'])).toBe(both);
  });

  test('show a check that now fails, or now applies', () => {
    const [first, , third] = acme.checks as [never, never, { name: string; result: 'passed' }];
    const failing = { ...acme, checks: [first, { ...third, result: 'failed' as const }] };
    const renewed = renew(both, [failing, brick], ['acme', 'brick']);
    expect(renewed).toContain('| Acme 6 on PostgreSQL 15 | 1 passed, 1 failed |');
    expect(renewed).not.toContain('Checks that do not apply');
  });

  test('keep the ERP against which a connector was verified elsewhere', () => {
    const other = { ...acme, against: 'Acme in a container' };
    const stub = { ...acme, against: 'a stub', verified: 'official metadata' as const };
    const renewed = renew(both, [stub, brick], ['acme', 'brick']);
    expect(renewed).toContain(acmeRow);
    expect(renewed).toContain('| official metadata | a stub |');
    const later = renew(renewed, [other, brick], ['acme', 'brick']);
    expect(later).toContain(acmeRow);
    expect(later).toContain('| Acme in a container |');
    expect(later).toContain('| official metadata | a stub |');
  });

  test('leave out connectors without a folder under connectors/', () => {
    const renewed = renew(both, [acme, { ...brick, connector: 'deliberately-broken' }], ['brick']);
    expect(renewed).toContain(brickRow);
    expect(renewed).not.toContain('acme');
    expect(renewed).not.toContain('deliberately-broken');
  });

  test('throw without their place in the document', () => {
    expect(() => renew('# Connectors\n', [acme], ['acme'])).toThrow('no place for the tables');
  });
});
