/** The path language is that of the bridge's mapping: docs/documents.md, "Field mapping". */
import { describe, expect, test } from 'vitest';
import { PathError } from '#connector/document-paths.ts';
import type { Document } from '#connector/documents.ts';
import { DataError } from '#connector/errors.ts';
import { jsonTemplate, placesOf, rootsOf, textTemplate, urlTemplate } from '../../../connectors/http/templates.ts';
import { answers, award, supplier } from './documents.ts';

const call = { content_hash: 'hash', idempotency_key: 'id-1', action: 'create' };
const text = (template: string, document: Document = award) =>
  textTemplate(rootsOf(document.kind), template)({ document, call });
const url = (template: string, document: Document = award) =>
  urlTemplate(rootsOf(document.kind), template)({ document, call });
const json = (template: unknown, document: Document = award) =>
  jsonTemplate(rootsOf(document.kind), template)({ document, call });

describe('a text', () => {
  test.each<[string, string | undefined, Document?]>([
    ['{event.name} for {supplier.name}', 'Chairs for Möbel'],
    ['{event.tags[Cost Center]}', '4711'],
    ['{event.tags["a[b]"]}', 'x'],
    ['{exchange_rates[USD]}', '0.91'],
    ['{lines[1].values[Material No]}', 'M-1'],
    ['{fields[Order Type]}', 'NB'],
    ['{lines[1].fields.Plant}', '1000'],
    ['{content_hash}/{idempotency_key}/{action}', 'hash/id-1/create'],
    ['{{{kind}}}', '{award}'],
    ['plain', 'plain'],
    ['{event.is_test}', 'false'],
    ['{supplier.external_id as odata}', "O''Neill & Söhne"],
    // A part without a value.
    ['{event.name} {fields.Missing}', undefined],
    ['{lines[3].lot}', undefined],
    ['{reference}', undefined],
    ['{fields.constructor}', undefined],
    ['{answers[1.2].comment}', 'never', answers],
    ['{answers[1]}', 'yes', answers],
    ['{lines[2].question.id}', 'q-2', answers],
    ['{contacts[1].email}', 'anna@moebel.example', supplier],
  ])('%j is %j', (template, expected, document) => {
    expect(text(template, document)).toBe(expected);
  });

  test.each([
    ['{event.nam}', 'leads to nothing: event has no member nam; it has id, name'],
    ['{suplier.name}', 'leads to nothing: the document has no member suplier'],
    ['{event}', 'leads to several values'],
    ['{lines}', 'lines is a list: say which with lines[1]'],
    ['{lines.lot}', 'lines is a list: say which with lines[1]'],
    ['{event.tags.Plant}', 'event.tags is a list: say which with event.tags[<name>]'],
    ['{event.name.first}', 'event.name is a single value'],
    ['{line.lot}', 'line is known only within each: lines'],
    ['{event.name', 'an unmatched brace'],
    ['{event.name as money}', 'there is no "as money"'],
    ['{}', 'must not be empty'],
    ['{lines[0].lot}', 'is read by place'],
  ])('%j is refused when the settings are read', (template, fault) => {
    expect(() => text(template)).toThrow(PathError);
    expect(() => text(template)).toThrow(fault);
  });
});

describe('a path', () => {
  test.each([
    ['/{kind}/{key}', '/award/ev-1%2Fsu-1'],
    ['/{event.id}/{supplier.id}', '/ev-1/su-1'],
    ["/vendors('{supplier.external_id}')", "/vendors('O%27Neill%20%26%20S%C3%B6hne')"],
    ['/orders?$filter=vendor eq'.replaceAll(' ', '%20'), '/orders?$filter=vendor%20eq'],
    [
      "/o?filter=name%20eq%20'{supplier.external_id as odata}'",
      "/o?filter=name%20eq%20'O%27%27Neill%20%26%20S%C3%B6hne'",
    ],
  ])('%s is %s: no value of a document changes the URL around it', (template, expected) => {
    expect(url(template)).toBe(expected);
  });

  test.each(['..', '.', ''])('cannot be made with the key %j', (key) => {
    expect(() => url('/x/{key}', { ...award, key })).toThrow(DataError);
  });

  test('cannot be made when a part of it has no value: it would be another path', () => {
    expect(() => url('/orders/{reference}')).toThrow(DataError);
  });

  test.each(['orders', 'https://evil.example/{key}', '/a b', '/a#b', '/a\\b'])('cannot be %j', (template) => {
    expect(() => url(template)).toThrow(PathError);
  });
});

describe('JSON', () => {
  test('keeps the value of a path as it is, and leaves out members without a value', () => {
    expect(
      json(
        {
          archived: '{archived}',
          contacts: '{contacts}',
          text: '{archived as text}',
          none: '{fields.None}',
          list: ['{name}', '{fields.None}', 5, null],
          constant: { n: 1.5, yes: true, nothing: null, text: 'x' },
        },
        supplier,
      ),
    ).toEqual({
      archived: true,
      contacts: [{ name: 'Anna', email: 'anna@moebel.example' }],
      text: 'true',
      list: ['Möbel', 5, null],
      constant: { n: 1.5, yes: true, nothing: null, text: 'x' },
    });
  });

  test('has amounts as text, or as a number with each digit', () => {
    const template = { text: '{total_cost}', number: '{total_cost as number}' };
    expect(JSON.stringify(json(template))).toBe('{"text":"1234567890123456.10","number":1234567890123456.1}');
  });

  test('lists lines, and lists within lines', () => {
    const template = {
      items: {
        each: 'lines',
        as: {
          lot: '{line.lot}',
          same: '{item.lot}',
          plant: '{line.fields.Plant}',
          order: '{event.id}-{line.lot}',
          cells: { each: 'line.values', as: { [`c`]: '{item.column}', lot: '{line.lot}' } },
        },
      },
    };
    expect(json(template)).toEqual({
      items: [
        { lot: 'A', same: 'A', plant: '1000', order: 'ev-1-A', cells: [{ c: 'Material No', lot: 'A' }] },
        { lot: 'B', same: 'B', order: 'ev-1-B', cells: [] },
      ],
    });
  });

  test('is built as values: the text of a document cannot end a string', () => {
    const evil = '", "price": 0, "x": "';
    expect(json({ name: 'a {name}' }, { ...supplier, name: evil })).toEqual({ name: `a ${evil}` });
    expect(JSON.stringify(json({ ['__proto__']: '{name}' }, supplier))).toBe('{"__proto__":"Möbel"}');
  });

  test('has the whole document with its content hash', () => {
    expect(json('{document}', supplier)).toEqual({ content_hash: 'hash', ...supplier });
  });

  test('names the place of a path that leads to nothing', () => {
    const template = { items: { each: 'lines', as: { lot: ['{line.lot}', '{line.lott}'] } } };
    const fault = (() => {
      try {
        json(template);
      } catch (error) {
        return error as PathError;
      }
      return undefined;
    })();
    expect(fault?.message).toContain('{line.lott} leads to nothing: line has no member lott');
    expect(fault && placesOf(fault)).toEqual(['items', 'as', 'lot', 1]);
  });

  test.each([
    [{ each: 'event.name', as: 'x' }, 'is not the path of a list'],
    [{ each: 5, as: 'x' }, 'must be the path of a list'],
    ['{line.lot}', 'only within each'],
  ])('%j is refused', (template, fault) => {
    expect(() => json(template)).toThrow(fault);
  });

  test('refuses a number that is not one', () => {
    expect(() => json({ n: '{event.name as number}' })).toThrow(DataError);
  });
});
