import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { decodeAnswer, readJsonAnswer } from '#platform/foreign-answer.ts';

const bytesMax = 1_000;
const umlaut = '{"name":"Müller"}';

function read(body: Buffer, headers: Record<string, string> = {}): Promise<unknown> {
  return readJsonAnswer({ headers, body }, 'The answer', bytesMax);
}

async function refusal(...answer: Parameters<typeof read>): Promise<AppError> {
  const error: unknown = await read(...answer).then(
    (json) => json,
    (thrown: unknown) => thrown,
  );
  if (error instanceof AppError) return error;
  throw new Error('it was read', { cause: error });
}

describe('an answer is read', () => {
  test.each([
    ['gzip', gzipSync(umlaut)],
    [' GZIP ', gzipSync(umlaut)],
    ['x-gzip', gzipSync(umlaut)],
    ['br', brotliCompressSync(umlaut)],
    ['deflate', deflateSync(umlaut)],
    ['deflate', deflateRawSync(umlaut)],
    ['identity', Buffer.from(umlaut)],
    ['', Buffer.from(umlaut)],
  ])('with the Content-Encoding "%s"', async (encoding, body) => {
    expect(await read(body, { 'content-encoding': encoding })).toEqual({ name: 'Müller' });
  });

  test.each([
    ['application/json; charset=ISO-8859-1', Buffer.from(umlaut, 'latin1')],
    ['application/json;charset="iso-8859-1"', Buffer.from(umlaut, 'latin1')],
    ['application/json; charset=windows-1252', Buffer.from(umlaut, 'latin1')],
    ['application/json; charset=UTF-16LE', Buffer.from(umlaut, 'utf16le')],
    ['application/json; charset=utf-8', Buffer.from(umlaut)],
    ['application/json', Buffer.from(umlaut)],
    ['application/json; charset=ISO-8859-1', Buffer.from(`\ufeff${umlaut}`)],
    ['application/json', Buffer.from(`\ufeff${umlaut}`)],
    ['application/json; charset=UTF-16LE', Buffer.from(`\ufeff${umlaut}`, 'utf16le')],
  ])('by its charset and without its byte order mark: %s', async (type, body) => {
    expect(await read(body, { 'content-type': type })).toEqual({ name: 'Müller' });
  });

  test('without losing a digit', async () => {
    expect(await read(Buffer.from('{"a":12345678901234567.89}'))).toEqual({ a: '12345678901234567.89' });
  });

  test('without a character that was cut off at its end', () => {
    const body = Buffer.from('Mü').subarray(0, 2);
    expect(decodeAnswer({ headers: {}, body, truncated: true }, 'The answer')).toBe('M');
  });
});

describe('an answer is refused, and a retry may help,', () => {
  test.each([
    ['bytes of another charset', Buffer.from(umlaut, 'latin1'), {}, 'The answer has bytes that are not UTF-8.'],
    [
      'bytes of another charset than its header says',
      Buffer.from(umlaut, 'latin1'),
      { 'content-type': 'application/json; charset=utf-8' },
      'The answer has bytes that are not utf-8.',
    ],
    [
      'a charset that nobody knows',
      Buffer.from(umlaut),
      { 'content-type': 'application/json; charset=klingon' },
      'The answer has the charset klingon, which is not known.',
    ],
    [
      'an encoding that was not asked for',
      Buffer.from(umlaut),
      { 'content-encoding': 'zstd' },
      'The answer has the Content-Encoding zstd, which was not asked for.',
    ],
    [
      'a body that breaks off',
      gzipSync(umlaut).subarray(0, 20),
      { 'content-encoding': 'gzip' },
      'The answer cannot be decompressed (gzip).',
    ],
    [
      'a page',
      Buffer.from('<html>'),
      { 'content-type': 'text/html; charset=utf-8' },
      'The answer is not JSON (text/html): it is a page for people, as of a login or of a proxy.',
    ],
    ['nothing', Buffer.from(''), {}, 'The answer is not JSON (no content type).'],
  ])('with %s', async (_what, body, headers, message) => {
    expect(await refusal(body, headers)).toMatchObject({ message, code: 'unavailable', recovery: { do: 'retry' } });
  });
});

describe('an answer is refused for good', () => {
  test.each([
    ['gzip', gzipSync(' '.repeat(1_001))],
    ['br', brotliCompressSync(' '.repeat(1_001))],
    ['deflate', deflateSync(' '.repeat(1_001))],
  ])('that is larger than the bound when it is decompressed: %s', async (encoding, body) => {
    expect(await refusal(body, { 'content-encoding': encoding })).toMatchObject({
      message: 'The answer is larger than 1000 bytes when it is decompressed.',
      code: 'too-large',
      recovery: { do: 'skip' },
    });
  });

  test('that is nested too deeply', async () => {
    const message = 'The answer is nested deeper than 100 levels (at character 100).';
    expect(await refusal(Buffer.from('['.repeat(500)))).toMatchObject({ message, code: 'too-large' });
  });
});
