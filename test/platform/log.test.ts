import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { createLogger, type Logger } from '#platform/log.ts';

const secret = 'hunter2-do-not-write-this';

/** Returns what `use` writes to the logger: the text, and its lines parsed. */
function written(use: (log: Logger) => void, level = 'trace') {
  let text = '';
  const destination = {
    write: (line: string) => {
      text += line;
    },
  };
  use(createLogger({ name: 'test', level, destination }));
  return {
    text,
    lines: text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

describe('a log line', () => {
  test('is one line of JSON with level, time and name', () => {
    const { text, lines } = written((log) => log.info({ event: 'a\nb' }, 'two\nlines'));
    expect(text.endsWith('\n')).toBe(true);
    expect(lines).toMatchObject([{ level: 'info', name: 'test', event: 'a\nb', msg: 'two\nlines' }]);
    expect(lines[0]?.['time']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test('below the level is not written', () => {
    expect(written((log) => log.info('quiet'), 'warn').text).toBe('');
  });

  test('goes to standard error, so that standard output is the command’s own', () => {
    const module = pathToFileURL(join(import.meta.dirname, '../../src/platform/log.ts')).href;
    const script = `const { createLogger } = await import(${JSON.stringify(module)});
      createLogger({ name: 'test', level: 'info' }).info('hello');`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
      encoding: 'utf8',
    });
    expect(stdout).toBe('');
    expect(JSON.parse(stderr)).toMatchObject({ level: 'info', msg: 'hello' });
  });

  test('can hold values that JSON cannot: circular and deep objects, bytes, big numbers', () => {
    const circle: Record<string, unknown> = { name: 'circle' };
    circle['self'] = circle;
    let deep: object = { end: true };
    for (let level = 0; level < 100; level += 1) deep = { deep };
    const { lines } = written((log) => log.info({ circle, deep, bytes: Buffer.alloc(3), when: new Date(0) }, 'odd'));
    expect(lines).toMatchObject([
      { circle: { name: 'circle', self: '[circular]' }, bytes: '[3 bytes]', when: '1970-01-01T00:00:00.000Z' },
    ]);
    expect(JSON.stringify(lines)).toContain('[deep]');
  });
});

describe('an error', () => {
  test('is written with its type, message, stack and code and those of its causes, and with nothing that hangs on it', () => {
    const request = Object.assign(new Error('ECONNRESET'), {
      code: 'ECONNRESET',
      config: { headers: { Authorization: `Bearer ${secret}`, accept: 'json' } },
    });
    const cause = new AppError('unavailable', 'The ERP is away.', { cause: request });
    const { text, lines } = written((log) => {
      log.error({ err: new AppError('internal', 'Not stored.', { cause }), requestId: 'r1' }, 'request failed');
      log.error(Object.assign(new Error('bare'), { password: secret, code: 7 }));
      log.child({ err: request }).error({ failures: [request, new AggregateError([request, new Error('b')])] });
    });
    const stack = expect.stringContaining('log.test.ts') as string;
    expect(text).not.toContain(secret);
    expect(lines).toHaveLength(3);
    expect(lines[0]?.['requestId']).toBe('r1');
    const reset = { type: 'Error', message: 'ECONNRESET', stack, code: 'ECONNRESET' };
    const away = { type: 'AppError', message: 'The ERP is away.', stack, code: 'unavailable', cause: reset };
    expect(lines[0]?.['err']).toEqual({
      type: 'AppError',
      message: 'Not stored.',
      stack,
      code: 'internal',
      cause: away,
    });
    expect(lines[1]?.['err']).toEqual({ type: 'Error', message: 'bare', stack, code: 7 });
    expect(lines[1]?.['msg']).toBe('bare');
    expect(lines[2]?.['failures']).toEqual([reset, { type: 'AggregateError', message: 'ECONNRESET; b', stack }]);
  });

  test('of any shape makes one short line without what hangs on it', () => {
    const anything = fc.anything({ maxDepth: 4, withBigInt: true, withMap: true, withNullPrototype: true });
    const name = fc.oneof(
      fc.constantFrom('client', 'connection', 'socket', 'errors', 'toJSON', 'raw', 'cause', 'name', 'code', 'inner'),
      fc.string({ minLength: 1 }).filter((each) => each !== 'message' && each !== 'stack'),
    );
    const marked = fc.tuple(anything, fc.constant({ processID: 4711, secretKey: secret, connection: { secret } }));
    fc.assert(
      fc.property(
        fc.string(),
        fc.array(fc.tuple(name, marked), { maxLength: 6 }),
        fc.nat(12),
        (message, hung, depth) => {
          let err = new Error(message);
          for (let level = 0; level < depth; level += 1) err = new Error(message, { cause: err });
          for (const [member, value] of hung)
            Object.defineProperty(err, member, { value, enumerable: true, configurable: true });
          const { text, lines } = written((log) => {
            log.error({ err }, 'failed');
            log.error({ list: [{ inner: err }] }, 'failed');
            log.child({ err }).error('failed');
          });
          expect(lines).toHaveLength(3);
          expect(text).not.toMatch(/hunter2|processID|secretKey|4711/);
          for (let each: unknown = lines[0]?.['err']; typeof each === 'object' && each !== null; ) {
            const shown: Record<string, unknown> = { ...each };
            expect(['type', 'message', 'stack', 'code', 'cause']).toEqual(expect.arrayContaining(Object.keys(shown)));
            each = shown['cause'];
          }
        },
      ),
    );
  });

  test('with members that throw, with causes in a circle, and with endless texts makes a line of bounded length', () => {
    const hostile = new Error('x'.repeat(5_000_000));
    for (const member of ['message', 'code', 'cause', 'name', 'errors'])
      Object.defineProperty(hostile, member, {
        get: () => {
          throw new Error('no');
        },
      });
    const circle = new Error('a');
    circle.cause = new Error('b', { cause: circle });
    let chain = new Error('last');
    for (let level = 0; level < 1_000; level += 1) chain = new Error('x'.repeat(50_000), { cause: chain });
    const { lines, text } = written((log) => {
      for (const err of [hostile, circle, chain, { client: secret, message: 'thrown' }, 'a text', null])
        log.error({ err }, 'odd');
    });
    expect(lines).toHaveLength(6);
    expect(text).not.toContain(secret);
    for (const line of text.split('\n')) expect(line.length).toBeLessThan(40_000);
    expect(lines[1]).toMatchObject({ err: { message: 'a', cause: { message: 'b' } } });
    expect(lines.slice(3)).toMatchObject([{ err: { type: 'Object', message: 'thrown' } }, { err: 'a text' }, {}]);
  });

  test('with long texts is short, wherever they stand, and its time does not grow with them', () => {
    const long = `Bearer ${'t'.repeat(40)} ${'x'.repeat(1_000_000)}`;
    const { text, lines } = written((log) => {
      log.info(long);
      log.info({ body: long, list: [long], inside: { body: long } }, 'read %s', long);
      log.child({ body: long }).info('read');
    });
    expect(lines).toHaveLength(3);
    expect(Math.max(...text.split('\n').map(({ length }) => length))).toBeLessThan(50_000);
    expect(text).not.toContain('tttt');
    expect(lines[0]?.['msg']).toMatch(/^Bearer \[secret\] x{7900,8000}\.\.\.$/);
  });

  test('whose text is cut in the middle of a secret does not show the half of it', () => {
    const { text } = written((log) =>
      log.error({ err: new Error(`${'x'.repeat(1_970)} postgresql://sourcing:${secret}@db:5432/x`) }, 'odd'),
    );
    expect(text).not.toContain('hunter2');
  });
});

describe('secrets', () => {
  const names = ['api_key', 'apiKey', 'API-Key', 'x-api-key', 'authorization', 'Authorization', 'password', 'key'];
  names.push('signing_key', 'signing_keys', 'client_secret', 'access_token', 'adminToken', 'masterKey');
  names.push('cookie', 'Set-Cookie', 'proxy-authorization', 'token');

  test.each(names)('under the name %s is not written, at any depth, in lists and children', (name) => {
    const { text, lines } = written((log) => {
      log.info({ [name]: secret });
      log.info({ flow: { name: 'erp', settings: { auth: [{ [name]: secret }] } } });
      log.info({ many: { [name]: [secret, { inner: secret }] } });
      log.child({ [name]: secret, source: { [name]: secret } }).info('child');
      log
        .child({ program: 'a' })
        .child({ [name]: secret })
        .info({ [name]: secret });
    });
    expect(text).not.toContain(secret);
    expect(lines).toHaveLength(5);
    expect(lines[0]?.[name]).toBe('[secret]');
  });

  test('the values beside them are written', () => {
    const { lines } = written((log) => log.info({ source: { name: 'cloud', api_key: secret, monkey: 1, keys: 2 } }));
    expect(lines[0]?.['source']).toEqual({ name: 'cloud', api_key: '[secret]', monkey: 1, keys: 2 });
  });

  test('in headers are not written', () => {
    const headers = { authorization: `Bearer ${secret}`, 'x-api-key': secret, accept: 'a/b' };
    const { text, lines } = written((log) => {
      log.info({ headers });
      log.info({ headers: new Headers(headers) });
    });
    expect(text).not.toContain(secret);
    expect(lines[0]?.['headers']).toEqual({ accept: 'a/b', authorization: '[secret]', 'x-api-key': '[secret]' });
  });

  test.each([
    [`connect to postgresql://sourcing:${secret}@db:5432/x failed`, 'postgresql://sourcing:[secret]@db:5432/x'],
    [`rediss://:${secret}@cache/0`, 'rediss://:[secret]@cache/0'],
    [`sent Authorization: Bearer ${secret}`, 'Bearer [secret]'],
    [`"Basic ${secret}"`, 'Basic [secret]'],
  ])('in the text %s is not written', (text, shown) => {
    const { text: line, lines } = written((log) => {
      log.warn(text);
      log.warn({ detail: { text }, err: new Error(text) }, 'x');
    });
    expect(line).not.toContain(secret);
    expect(lines[0]?.['msg']).toContain(shown);
    expect(lines).toHaveLength(2);
  });

  test('a line stays valid JSON, whatever text it holds', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.webUrl({ authoritySettings: { withUserInfo: true } }), (a, b) => {
        expect(written((log) => log.info({ a, b, c: `${b}${a}@` }, `${a} Bearer ${b}`)).lines).toHaveLength(1);
      }),
    );
  });
});
