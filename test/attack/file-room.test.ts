/** One organisation uploads all that it can. Its room is bounded, and the refusal says what is used and what is left. */
import { describe, expect, test } from 'vitest';
import { upload, uploadFile } from '../harness/files.ts';
import { connectRaw } from '../harness/raw-connection.ts';
import { createEvent, endedJob, eventPayload } from '../harness/sourcing.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';

const [bodyBytesMax, fileBytesMax] = [2_000, 5_000];
const service = await startTestService({ bodyBytesMax, fileBytesMax });
const port = Number(new URL(service.url).port);

const bytes = (length: number) => Buffer.alloc(length, 'x');
const setLimits = (organisation: TestOrganisation, limits: object) =>
  service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, limits);

async function usedBytes({ id }: TestOrganisation): Promise<number> {
  const [row] = await service.db.database.query<{ file_bytes: number }>(
    'select file_bytes from service.organisations where id = $1',
    [id],
  );
  return row?.file_bytes ?? Number.NaN;
}

const head = (organisation: TestOrganisation, length: string) =>
  [
    'POST /desk/files HTTP/1.1',
    'Host: test',
    `Authorization: Bearer ${organisation.key}`,
    'Content-Type: text/plain',
    'X-File-Name: a.txt',
    length,
  ]
    .join('\r\n')
    .concat('\r\n\r\n');

describe('an upload', () => {
  test('that is too large is 413, one without room is 507: with the limit, what is used and what is left', async () => {
    const organisation = await service.organisation();
    await uploadFile(organisation, 'a.txt', bytes(1_999));
    const large = await upload(organisation, bytes(2_001));
    expect([large.status, large.body]).toEqual([
      413,
      expect.objectContaining({ status: 413, limit_bytes: 2_000, used_bytes: 1_999, left_bytes: 3_001 }),
    ]);
    expect(large.body.detail).toBe(
      "The file is larger than the limit of 2000 bytes. The organisation's files use 1999 bytes, 3001 are left.",
    );
    await uploadFile(organisation, 'a.txt', bytes(2_000));
    const full = await upload(organisation, bytes(1_002));
    expect([full.status, full.body]).toEqual([
      507,
      expect.objectContaining({ status: 507, limit_bytes: 5_000, used_bytes: 3_999, left_bytes: 1_001 }),
    ]);
    expect(full.body.detail).toContain('may have 5000 bytes together. They use 3999, and 1001 are left.');
    await uploadFile(organisation, 'a.txt', bytes(1_001));
    expect((await upload(organisation, bytes(1))).status).toBe(507);
    // Another organisation has room of its own.
    await uploadFile(await service.organisation(), 'a.txt', bytes(2_000));
  });

  test.each([
    ['Content-Length: 2001', 413],
    ['Content-Length: 2000', 507],
  ])('with %s is refused with %i before a byte of it is read', async (length, status) => {
    const organisation = await service.organisation();
    await setLimits(organisation, { file_bytes_max: 1_999, enabled: false });
    const connection = await connectRaw(port);
    connection.send(head(organisation, length));
    expect(await connection.until('left_bytes')).toContain(`HTTP/1.1 ${status} `);
  });

  test('of unknown length is stopped at what is left, and its room is free again', async () => {
    const organisation = await service.organisation();
    await setLimits(organisation, { file_bytes_max: 1_000, enabled: false });
    const connection = await connectRaw(port);
    connection.send(head(organisation, 'Transfer-Encoding: chunked'));
    connection.send(`3e9\r\n${'x'.repeat(1_001)}\r\n`);
    expect(await connection.until('left_bytes')).toMatch(/^HTTP\/1\.1 507 /);
    await expect.poll(() => usedBytes(organisation)).toBe(0);
    const fits = await connectRaw(port);
    fits.send(head(organisation, 'Transfer-Encoding: chunked'));
    fits.send(`3e8\r\n${'x'.repeat(1_000)}\r\n0\r\n\r\n`);
    expect(await fits.until('sha256')).toMatch(/^HTTP\/1\.1 201 /);
    expect(await usedBytes(organisation)).toBe(1_000);
  });

  test('that breaks off frees its room', async () => {
    const organisation = await service.organisation();
    const connection = await connectRaw(port);
    connection.send(`${head(organisation, 'Content-Length: 2000')}half`);
    await expect.poll(() => usedBytes(organisation)).toBe(2_000);
    connection.socket.destroy();
    await expect.poll(() => usedBytes(organisation)).toBe(0);
  });

  test('is counted while it is under way: many at once take no more than there is', async () => {
    const organisation = await service.organisation();
    const answers = await Promise.all(Array.from({ length: 12 }, () => upload(organisation, bytes(1_000))));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      ...Array(5).fill(201),
      ...Array(7).fill(507),
    ]);
    expect(await usedBytes(organisation)).toBe(5_000);
  });
});

test('a job attaches what there is room for, and names the other files', async () => {
  const organisation = await service.organisation();
  const event = await createEvent(organisation, eventPayload());
  await setLimits(organisation, { file_bytes_max: 500, enabled: false });
  const content = bytes(400).toString('base64');
  const attach = (name: string) =>
    endedJob(organisation, '/api/jobs/attach-files-to-sourcing-event', {
      sourcing_event: event,
      files: [{ file_name: name, content }],
    });
  expect((await attach('first.txt')).detail).toMatchObject({ data: [{ file_name: 'first.txt' }], errors: [] });
  expect((await attach('second.txt')).detail).toEqual({
    data: [],
    errors: [{ file_name: 'second.txt', error: 'no_space' }],
  });
  expect(await usedBytes(organisation)).toBe(400);
});

test('the operator sets the room of an organisation; without one it is 1 GB, and switching limits off leaves it', async () => {
  const organisation = await service.organisation();
  expect((await setLimits(organisation, { file_bytes_max: 7 })).body.file_bytes_max).toBe(7);
  expect((await setLimits(organisation, { enabled: false })).body.file_bytes_max).toBe(7);
  expect((await setLimits(organisation, {})).body.file_bytes_max).toBe(fileBytesMax);
});
