/** An e-mail address is found however text has it, by PostgreSQL as by JavaScript, and nobody else's is. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPerson } from '#platform/person-data/person.ts';
import { createTestDatabase } from '../../harness/test-database.ts';

const { database } = await createTestDatabase();
const ann = createPerson(' Ann+Work@Example.com ', '0123456789ab');
const mark = 'erased-0123456789ab@erased.invalid';

async function foundBySql(text: string): Promise<boolean> {
  const [row] = await database.query<{ found: boolean }>('select $1::text ~* $2 as found', [text, ann.pattern]);
  return row?.found === true;
}

describe('the address', () => {
  test.each([
    ['alone', 'ann+work@example.com', mark],
    ['in other letters', 'ANN+WORK@EXAMPLE.COM', mark],
    ['at the end of a sentence', 'Ask ann+work@example.com.', `Ask ${mark}.`],
    ['between brackets', 'Ann <ann+work@example.com>, Bob', `Ann <${mark}>, Bob`],
    ['after a line end in JSON', '{"a":"x\\nann+work@example.com"}', `{"a":"x\\n${mark}"}`],
    ['as an encoder of JSON writes it', '"ann\\u002Bwork\\u0040example.com"', `"${mark}"`],
    ['after an escaped quote', '\\u0022ann+work@example.com\\u0022', `\\u0022${mark}\\u0022`],
    ['in a URL', 'https://x.example/?to=ann%2Bwork%40example.com&n=1', `https://x.example/?to=${mark}&n=1`],
    ['in a form that was encoded', 'a=%20ann%2bwork%40example.com', `a=%20${mark}`],
    ['more than once', 'ann+work@example.com,ann+work@example.com', `${mark},${mark}`],
  ])('%s is found and taken out', async (_how, text, without) => {
    expect([ann.isIn(text), await foundBySql(text), ann.takeOutOfText(text)]).toEqual([true, true, without]);
  });

  test.each([
    'joann+work@example.com',
    'ann+work@example.com.au',
    'ann+work@example.community',
    'ann@example.com',
    'annxwork@example.com',
    'ann+work@exampleXcom',
  ])('is not found in %s', async (text) => {
    expect([ann.isIn(text), await foundBySql(text), ann.takeOutOfText(text)]).toEqual([false, false, text]);
  });

  const address = fc
    .tuple(
      fc.stringMatching(/^[a-z0-9][a-z0-9.+'"\\/&é]{0,12}[a-z0-9]$/),
      fc.stringMatching(/^[a-z0-9]{1,8}\.[a-z]{2,4}$/),
    )
    .map(([local, domain]) => `${local}@${domain}`);
  test('is found by both in any text and in its JSON, and is gone afterwards', async () => {
    await fc.assert(
      fc.asyncProperty(
        address,
        fc.constantFrom('', 'Mail: ', '"', '\n', '(', 'é '),
        fc.constantFrom('', '.', '"', '\n', ')'),
        async (given, before, after) => {
          const person = createPerson(given, '0123456789ab');
          for (const text of [before + given + after, JSON.stringify({ text: before + given.toUpperCase() + after })]) {
            const [row] = await database.query<{ found: boolean }>('select $1::text ~* $2 as found', [
              text,
              person.pattern,
            ]);
            expect([row?.found, person.isIn(text)]).toEqual([true, true]);
            expect(person.isIn(person.takeOutOfText(text))).toBe(false);
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

test('of JSON a contact goes as a whole, with its name; elsewhere only the address goes', () => {
  const email = 'Ann+Work@example.com';
  expect(
    ann.takeOutOfJson({
      name: 'Acme',
      contacts: [
        { name: 'Ann', email },
        { name: 'Bob', email: 'bob@example.com' },
      ],
      invited: [email, 'bob@example.com'],
      event_contact: { name: 'Ann', email },
      owner: { external_id: 'S1', email },
      note: `Ask ${email}`,
      count: 3,
    }),
  ).toEqual({
    name: 'Acme',
    contacts: [{ name: 'Bob', email: 'bob@example.com' }],
    invited: ['bob@example.com'],
    owner: { external_id: 'S1', email: mark },
    note: `Ask ${mark}`,
    count: 3,
  });
  expect(ann.takeOutOfJson({ name: 'Ann', email })).toBeUndefined();
});

test.each(['', 'ann', 'ann@', 'a b@example.com'])('"%s" is no e-mail address, which is said', (given) => {
  expect(() => createPerson(given, '0123456789ab')).toThrow(/is no e-mail address/);
});
