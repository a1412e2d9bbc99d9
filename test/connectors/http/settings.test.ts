import { describe, expect, test } from 'vitest';
import { parseInput } from '#platform/input.ts';
import http from '../../../connectors/http/index.ts';

const base = { base_url: 'https://erp.example' };
const create = { method: 'POST', path: '/orders' };
const amend = { method: 'PATCH', path: '/orders/{reference}' };
const cancel = { method: 'DELETE', path: '/orders/{reference}' };
const lookup = { path: '/orders?key={key}', list: 'items', where: { key: '{key}' } };
const post = { create, amend, cancel, lookup };
const put = { method: 'PUT', path: '/x/{key}' };

function issuesOf(settings: object): string[] {
  try {
    parseInput(http.settings, { ...base, ...settings }, 'The settings');
    return [];
  } catch (error) {
    return (error as { issues: { path: string; message: string }[] }).issues.map(
      ({ path, message }) => `${path}: ${message}`,
    );
  }
}

describe('settings', () => {
  test.each<[string, object]>([
    ['nothing but the address', {}],
    ['a POST with a lookup', { documents: { award: post } }],
    [
      'a PUT to a path of the document, without a lookup',
      { documents: { award: { create: put, cancel: { ...put, method: 'DELETE' } } } },
    ],
    [
      'a PUT to event and supplier',
      {
        documents: {
          award: {
            create: { ...put, path: '/e/{event.id}/{supplier.id}' },
            cancel: { method: 'DELETE', path: '/e/{event.id}/{supplier.id}' },
          },
        },
      },
    ],
    ['a supplier without a cancel', { documents: { supplier: { create: put } } }],
  ])('can be %s', (_name, settings) => {
    expect(issuesOf(settings)).toEqual([]);
  });

  // Each could create a second object, leave one behind, or change another one.
  test.each<[string, object, string]>([
    [
      'a POST without a lookup',
      { ...post, lookup: undefined },
      'documents.award: needs lookup: after a request that was cut off',
    ],
    [
      'a PUT and a PATCH without a lookup',
      { create: put, amend: { ...put, method: 'PATCH' }, cancel },
      'documents.award: needs lookup',
    ],
    [
      'a cancel at another path without a lookup',
      { create: put, cancel },
      'documents.award: needs lookup, as cancel has another path',
    ],
    ['a POST without amend', { ...post, amend: undefined }, 'documents.award: needs amend'],
    ['no cancel', { ...post, cancel: undefined }, 'documents.award: needs cancel'],
    ['no create', { ...post, create: undefined }, 'documents.award: needs create'],
    [
      'a PUT to a path that others share',
      { create: { ...put, path: '/x/{event.id}' }, cancel, lookup },
      'documents.award.create.path: must name the document',
    ],
    [
      'a create by the reference',
      { ...post, create: { ...create, path: '/x/{reference}' } },
      'documents.award.create.path: cannot have {reference}',
    ],
    [
      'a cancel by a field of the mapping',
      { ...post, cancel: { ...cancel, path: '/x/{fields.No}' } },
      'documents.award.cancel.path: cannot have fields or lines',
    ],
    [
      'a lookup by a field of the mapping',
      { ...post, lookup: { ...lookup, where: { no: '{fields.No}' } } },
      'documents.award.lookup.path: cannot have fields or lines',
    ],
    [
      'a lookup by the reference',
      { ...post, lookup: { ...lookup, path: '/x/{reference}' } },
      'documents.award.lookup.path: can only have members of the document itself',
    ],
    [
      'a search that may find others',
      { ...post, lookup: { path: '/x', list: 'items' } },
      'documents.award.lookup: needs where',
    ],
    ['a lookup without a reference', { ...post, reference: 'location' }, 'documents.award.lookup: needs reference'],
    ['a HEAD with a list', { ...post, lookup: { ...lookup, method: 'HEAD' } }, 'documents.award.lookup: must be a GET'],
    [
      'bytes of a document that has none',
      { ...post, create: { ...create, body: 'file' } },
      'documents.award.create.body: cannot have bytes',
    ],
  ])('cannot be %s', (_name, award, issue) => {
    expect(issuesOf({ documents: { award } }).join('\n')).toContain(issue);
  });

  test.each<[object, string]>([
    [
      { documents: { award: { ...post, create: { ...create, body: { json: { a: ['{event.nam}'] } } } } } },
      'documents.award.create.body.json.a[0]: {event.nam} leads to nothing',
    ],
    [
      { documents: { award: { ...post, create: { ...create, headers: { 'X-A': '{x}' } } } } },
      'documents.award.create.headers.X-A: {x} leads to nothing',
    ],
    [
      { documents: { award: { ...post, create: { ...create, path: '/{suplier}' } } } },
      'documents.award.create.path: {suplier} leads to nothing',
    ],
    [
      { documents: { award: { ...post, lookup: { ...lookup, list: 'a..b' } } } },
      'documents.award.lookup.list: must be written as',
    ],
    [{ answers: [{ body: { 'a b': 1 }, means: 'data' }] }, 'answers[0].body["a b"]: must be written as'],
    [
      { answers: [{ body: { a: { matches: '(' } }, means: 'data' }] },
      'answers[0].body.a.matches: must be a regular expression',
    ],
    [{ answers: [{ means: 'data' }] }, 'answers[0]: must have a status, a body or both'],
    [{ answers: [{ status: '6xx', means: 'data' }] }, 'answers[0].status'],
    [{ message: '' }, 'message: must not be empty'],
    [{ auth: { type: 'basic', user: 'a' } }, 'auth.password: is missing'],
    [{ auth: { type: 'kerberos' } }, 'auth.type: must be one of'],
    [{ documents: { awards: post } }, 'documents'],
  ])('that are wrong are refused with the place and the reason: %j', (settings, issue) => {
    expect(issuesOf(settings).join('\n')).toContain(issue);
  });

  describe('of steps', () => {
    const find = { path: '/bids?key={key}', list: 'items', where: { key: '{key}' } };
    const step = { name: 'bid', ...create, find, capture: { bid: 'id' } };
    const publish = { name: 'publish', method: 'PUT', path: '/bids/{captured.bid}/state' };
    const steps = (...list: object[]) => ({ documents: { award: { create: list, cancel, lookup } } });

    test('may be a list that also amends', () => {
      expect(issuesOf(steps(step, publish))).toEqual([]);
    });

    test.each<[string, object, string]>([
      ['a POST without find', steps({ ...step, find: undefined }), 'create[0]: needs find: after an attempt'],
      ['a PATCH without find', steps(step, { ...publish, method: 'PATCH' }), 'create[1]: needs find'],
      ['a name twice', steps(step, { ...publish, name: 'bid' }), 'create[1]: has the name of a step before it'],
      ['no name', steps({ ...step, name: undefined }), 'create[0].name: is missing'],
      ['no steps', steps(), 'create: must have at least 1'],
      [
        'eleven steps',
        steps(...Array.from({ length: 11 }, (_, n) => ({ ...step, name: `${n}` }))),
        'create: must be an object, or must have at most 10',
      ],
      ['a value that no step before captures', steps(publish, step), 'create[0].path: {captured.bid} leads to nothing'],
      [
        'another value',
        steps(step, { ...publish, path: '/x/{captured.bit}' }),
        'create[1].path: {captured.bit} leads to nothing: captured has no member bit; it has bid',
      ],
      [
        'a find that captures less',
        steps({ ...step, find: { ...find, capture: {} } }),
        'create[0].find: must capture what the step captures: bid',
      ],
      [
        'a find by a reference that is not there yet',
        steps({ ...step, find: { ...find, path: '/bids/{reference}' } }),
        'create[0].find: cannot have {reference}',
      ],
      [
        'a find by the key of the attempt',
        steps({ ...step, find: { ...find, where: { key: '{idempotency_key}' } } }),
        'create[0].find: cannot have {idempotency_key}',
      ],
      [
        'a find in a list without where',
        steps({ ...step, find: { ...find, where: {} } }),
        'create[0].find: needs where',
      ],
      [
        'a find that leads to nothing',
        steps({ ...step, find: { ...find, where: { key: '{kee}' } } }),
        'create[0].find.where.key: {kee} leads to nothing',
      ],
      [
        'a condition that leads to nothing',
        steps({ ...step, when: { 'event.nam': 'x' } }),
        'create[0].when["event.nam"]: {event.nam} leads to nothing',
      ],
      [
        'a rule without a condition',
        steps({ ...step, answers: [{ means: 'data' }] }),
        'create[0].answers[0]: must have a status',
      ],
      [
        'a wrong path of a value',
        steps({ ...step, capture: { bid: 'a b' } }),
        'create[0].capture.bid: must be written as',
      ],
      ['no lookup', { documents: { award: { create: [step], cancel } } }, 'documents.award: needs lookup'],
      [
        'a reference that is not captured',
        {
          documents: {
            award: { create: [step], cancel, lookup: { ...lookup, reference: 'id' }, reference: { captured: 'x' } },
          },
        },
        'documents.award: has the reference x, which not both',
      ],
      [
        'lines in the steps of a cancel',
        { documents: { award: { ...post, cancel: [{ ...step, find: { ...find, path: '/x/{lines[1].lot}' } }] } } },
        'cancel[0].find: cannot have fields or lines',
      ],
    ])('cannot have %s', (_name, settings, issue) => {
      expect(issuesOf(settings).join('\n')).toContain(issue);
    });

    test('and limits determine how much the bridge sends at once, and how long it may take', () => {
      const of = (settings: object) => http.capabilitiesWith?.(http.settings.parse({ ...base, ...settings }));
      expect(of({})).toMatchObject({ batchMax: 200, timeoutMs: 160_000 });
      expect(of({ limits: { per_minute: 80 } })).toMatchObject({ batchMax: 80 });
      // Three requests, each of at least a second and of at most 30; what is sent becomes visible after 5 s.
      expect(of(steps(step, publish))).toMatchObject({ batchMax: 20, timeoutMs: 230_000 });
    });
  });

  test('determine how a second object is prevented', () => {
    const of = (settings: object) => http.capabilitiesWith?.(http.settings.parse({ ...base, ...settings }));
    expect(of({})).toMatchObject({ idempotency: 'external-id', requestsAtOnce: 4 });
    expect(of({ documents: { award: post } })).toMatchObject({ idempotency: 'lookup' });
    expect(of({ documents: { award: post }, idempotency_header: 'Idempotency-Key', concurrency: 9 })).toMatchObject({
      idempotency: 'key',
      requestsAtOnce: 9,
    });
  });

  test('determine how long the bridge waits before a lookup: the late effect has to become visible, too', () => {
    const of = (settings: object) => http.capabilitiesWith?.(http.settings.parse({ ...base, ...settings }));
    expect(of({})).toMatchObject({ lateEffectMs: 35_000, visibleAfterMs: 5_000 });
    expect(of({ settle_seconds: 0, visible_seconds: 0.5 })).toMatchObject({ lateEffectMs: 500, visibleAfterMs: 500 });
  });
});

describe('the address of an object', () => {
  const urlOf = (object_url: string | undefined, reference: string) =>
    http.urlOf?.(reference, http.settings.parse({ ...base, ...(object_url === undefined ? {} : { object_url }) }));

  test('holds the reference, so that nothing in it leads elsewhere; without the setting there is none', () => {
    expect(urlOf('https://erp.example/orders/{reference}?view=1', 'PO 17/2')).toBe(
      'https://erp.example/orders/PO%2017%2F2?view=1',
    );
    expect(urlOf('https://erp.example/#{reference}', "$&'$1")).toBe("https://erp.example/#%24%26'%241");
    expect(urlOf(undefined, 'PO-17')).toBeUndefined();
  });

  test.each([
    'https://erp.example/orders',
    'https://{reference}.example/',
    'javascript:alert({reference})',
    'erp/{reference}',
  ])('%s is refused', (object_url) => {
    expect(issuesOf({ object_url })).toEqual(['object_url: must be a URL with {reference} in its path or after it']);
  });
});

describe('the request that tells the ERP what became of a requisition', () => {
  const of = (acknowledge: object, more: object = {}) => ({
    ...more,
    read: {
      requisition: { path: '/needs', record: { reference_id: 'no', items: { at: 'items' } }, acknowledge },
    },
  });
  const url = '/needs/{requisition}';

  test.each<[string, object]>([
    ['replaces what is at the URL of the requisition', of({ method: 'PUT', path: url })],
    ['changes it there', of({ method: 'PATCH', path: url, body: { json: { progress: '{status}' } } })],
    ['is a POST that carries the key of the news', of({ method: 'POST', path: '/news' })],
    [
      'is a POST with the key in a header',
      of({ method: 'POST', path: url, body: 'none' }, { idempotency_header: 'Idempotency-Key' }),
    ],
  ])('%s', (_name, settings) => {
    expect(issuesOf(settings)).toEqual([]);
  });

  const place = 'read.requisition.acknowledge';
  test.each<[string, object, string]>([
    ['a PUT to one path for all', { method: 'PUT', path: '/news' }, `${place}.path: must name the requisition`],
    [
      'a POST that a repetition would show twice',
      { method: 'POST', path: url, body: { json: { progress: '{status}' } } },
      `${place}: needs {idempotency_key}`,
    ],
    [
      'a POST that names no requisition',
      { method: 'POST', path: '/news', body: { json: { key: '{idempotency_key}' } } },
      `${place}.path: or the body must name the requisition`,
    ],
    [
      'a path that no news have',
      { method: 'PUT', path: url, body: { json: { price: '{event.price}' } } },
      `${place}.body.json.price: {event.price} leads to nothing`,
    ],
  ])('is refused: %s', (_name, acknowledge, words) => {
    expect(issuesOf(of(acknowledge))).toEqual([expect.stringContaining(words)]);
  });

  test('a list of the open ones cannot ask for changes only', () => {
    const read = { requisition: { path: '/needs', record: { reference_id: 'no', items: { at: 'items' } } } };
    const of = (open_list: object) => issuesOf({ read: { requisition: { ...read.requisition, open_list } } });
    expect(of({ path: '/needs?since={since}' })).toEqual([
      expect.stringContaining('read.requisition.open_list.path: cannot have {since}'),
    ]);
    expect(of({ path: '/needs', next: { url: 'a b' } })).toEqual([
      expect.stringContaining('read.requisition.open_list.next: must be written as'),
    ]);
  });
});
