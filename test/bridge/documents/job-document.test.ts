import { describe, expect, test } from 'vitest';
import { documentKeysOfResource } from '#bridge/documents/document-keys.ts';
import { makeJobDocument } from '#bridge/documents/job-document.ts';
import { documentSchemas } from '#connector/documents.ts';
import { idOf } from '../parts.ts';

const key = idOf(7);
const make = (object: unknown, reference?: string) => makeJobDocument({ key, held: { object, reference } });

test('the document of a job says what became of it, in the service’s words', () => {
  const made = make(
    {
      id: key,
      type: 'CREATE_SOURCING_EVENT',
      status: 'FAILED',
      created: '2030-01-01T00:00:00Z',
      created_entity: null,
      errors: [{ path: 'suppliers[0]', message: 'there is no supplier "S1"' }, { message: 'and 3 more' }],
    },
    'PR-7',
  );
  expect(made).toEqual({
    made: 'document',
    wanted: true,
    document: {
      kind: 'job',
      key,
      type: 'CREATE_SOURCING_EVENT',
      status: 'FAILED',
      created: '2030-01-01T00:00:00.000000Z',
      reference_id: 'PR-7',
      errors: [{ path: 'suppliers[0]', message: 'there is no supplier "S1"' }, { message: 'and 3 more' }],
    },
  });
  expect(documentSchemas.job.safeParse('document' in made && made.document).success).toBe(true);
});

test('files that were left out stand with the errors', () => {
  const detail = {
    data: [],
    errors: [
      { file_name: 'a.pdf', error: 'too_large' },
      { file_uuid: idOf(9), error: 'not_found' },
    ],
  };
  expect(make({ type: 'ATTACH_FILES_TO_SOURCING_EVENT', status: 'COMPLETED', detail })).toMatchObject({
    document: { errors: [{ path: 'a.pdf', message: 'too_large' }, { message: 'not_found' }] },
  });
});

test.each([
  ['a text', 'no', [{ message: 'no' }]],
  ['texts', ['no', 'never'], [{ message: 'no' }, { message: 'never' }]],
  ['an object by member', { name: ['is taken'] }, [{ message: '{"name":["is taken"]}' }]],
  ['something else', [{ reason: 5 }], [{ message: '{"reason":5}' }]],
  ['null', null, []],
])('errors of another service that are %s are shown', (_form, errors, shown) => {
  expect(make({ status: 'FAILED', errors })).toMatchObject({ document: { errors: shown } });
});

test('a status, type or members that no document names do not matter', () => {
  expect(make({ status: 'QUEUED', more: 1 })).toMatchObject({ document: { type: '', status: 'QUEUED', errors: [] } });
});

describe('no document is made', () => {
  test.each([
    ['a status', { type: 'X' }, 'status'],
    ['a time that can be read', { status: 'COMPLETED', created: 'soon' }, 'created'],
  ])('of a job without %s: it is a dead letter that names the member', (_what, object, member) => {
    expect(make(object)).toMatchObject({ made: 'rejected', reason: expect.stringContaining(member) });
  });

  test('of a job that has not been read', () => {
    expect(makeJobDocument({ key, held: undefined })).toMatchObject({ made: 'not-yet' });
  });

  test('of a job that only makes links to files, nor is one marked', () => {
    const links = { id: key, type: 'GENERATE_FILE_DOWNLOAD_LINKS', status: 'COMPLETED' };
    expect(make(links)).toMatchObject({ made: 'held' });
    expect(documentKeysOfResource('job', links)).toEqual([]);
    expect(documentKeysOfResource('job', { ...links, type: 'UPDATE_SOURCING_EVENT' })).toMatchObject([
      { kind: 'job', key },
    ]);
  });
});
