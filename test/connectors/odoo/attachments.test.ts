/** Where answers and files are attached, and that people can read them. */
import { describe, expect, test } from 'vitest';
import type { FileContent } from '#connector/connector.ts';
import type { DocumentOf } from '#connector/documents.ts';
import { idOf, never, openSession, operation, referenceOf, startErp, write } from './odoo-session.ts';

const event = { id: 'event-1', name: 'Chairs', type: 'RFQ', is_test: false, tags: [] };
const question = { id: 'q-1', identifier: '1.2', text: 'Are you certified?' };

test('answers are a text, because Odoo shows a page of the bridge’s user as its source', async () => {
  const erp = await startErp();
  const session = await openSession(erp);
  const document = {
    kind: 'rfi-answers',
    key: 'event-1/s',
    event,
    supplier: { id: 's', external_id: 'V-1001', name: 'Müller & Söhne KG' },
    lines: [{ question, options: [{ value: 'Yes & no' }], comment: 'Since 2020', files: ['iso.pdf'] }],
  } as unknown as DocumentOf<'rfi-answers'>;
  const row = erp.rows.find('ir.attachment', idOf(await write(session, 'create', document)));
  expect(row).toMatchObject({ name: 'Answers Chairs.txt', mimetype: 'text/plain', res_model: 'res.partner' });
  expect(Buffer.from(String(row?.['datas']), 'base64').toString()).toBe(
    [
      'Answers of Müller & Söhne KG: Chairs',
      '',
      '1.2 Are you certified?',
      '    - Yes & no',
      '    Comment: Since 2020',
      '    Files: iso.pdf',
      '',
      '',
    ].join('\n'),
  );
});

test('a file of a question is attached to the company’s own contact, as the user may not write to the company', async () => {
  const erp = await startErp();
  const document = { kind: 'file', key: 'event-1/q-1/f', event, question } as unknown as DocumentOf<'file'>;
  const file: FileContent = { name: 'plan.txt', read: async () => Buffer.from('A plan') };
  for (const [company, contact] of [
    ['My Company', 1],
    ['Second Co', 6],
  ] as const) {
    const session = await openSession(erp, { company });
    const key = `${document.key}/${contact}`;
    const [outcome] = await session.write([{ ...operation('create', { ...document, key }), file }], never);
    expect(erp.rows.find('ir.attachment', idOf(outcome as never))).toMatchObject({
      name: 'plan.txt',
      res_model: 'res.partner',
      res_id: contact,
    });
  }
});

describe('the bytes of a file', () => {
  const document = { kind: 'file', key: 'event-1/q-1/f', event, question } as unknown as DocumentOf<'file'>;
  const fileOf = (name: string, bytes: Buffer) => ({
    ...operation('create', document),
    file: { name, read: async () => bytes },
  });

  test('stay as they are, also those of a picture that Odoo makes smaller by itself', async () => {
    const erp = await startErp();
    const session = await openSession(erp);
    const picture = Buffer.from('89504e470d0a1a0a0000000d4948445200000fa000000bb8', 'hex');
    const [outcome] = await session.write([fileOf('scan.png', picture)], never);
    expect(outcome).toMatchObject({ status: 'created' });
    const row = erp.rows.find('ir.attachment', idOf(outcome as never));
    expect(row?.['datas']).toBe(picture.toString('base64'));
  });

  test('of an empty file are in step, although Odoo has no checksum of an attachment that is made without bytes', async () => {
    const erp = await startErp();
    const session = await openSession(erp);
    const empty = fileOf('empty.txt', Buffer.alloc(0));
    const filled = { ...fileOf('empty.txt', Buffer.from('A plan')), contentHash: 'f'.repeat(64) };
    for (const [status, written] of [
      ['created', empty],
      ['unchanged', empty],
      ['updated', filled],
      ['updated', empty],
      ['unchanged', empty],
    ] as const) {
      const [outcome] = await session.write([written], never);
      expect(outcome).toMatchObject({ status });
      const reference = referenceOf(outcome as never);
      expect(await session.lookup?.([document], never)).toEqual([
        { key: document.key, reference, contentHash: written.contentHash },
      ]);
    }
  });

  test('that Odoo changes are refused, and no lookup says that they are in step', async () => {
    const erp = await startErp({
      constraints: [
        (model, row) => {
          if (model === 'ir.attachment') row['datas'] = Buffer.from('changed by an automation').toString('base64');
          return undefined;
        },
      ],
    });
    const session = await openSession(erp);
    const written = fileOf('plan.txt', Buffer.from('A plan'));
    for (const action of ['create', 'amend'] as const)
      expect(await session.write([{ ...written, action }], never)).toEqual([
        {
          status: 'rejected',
          error: {
            type: 'data',
            message: expect.stringMatching(/^Odoo holds other bytes of ir\.attachment,\d+ than/u),
          },
          partial: true,
        },
      ]);
    const found = await session.lookup?.([document], never);
    expect(found).toEqual([{ key: document.key, reference: expect.any(String), contentHash: undefined }]);
  });
});
