import { describe, expect, test } from 'vitest';
import { settings, targetOf } from '../../../connectors/postgres/settings.ts';

const url = 'postgres://bridge:p%40ss@db.example.com:6432/erp';
const issuesOf = (given: Record<string, unknown>) =>
  settings.safeParse(given).error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? [];
const parsedTarget = (given: Record<string, unknown>) => targetOf(settings.parse(given));

describe('settings', () => {
  test('name the target by a URL or by single settings', () => {
    const expected = { host: 'db.example.com', port: 6432, user: 'bridge', password: 'p@ss', database: 'erp' };
    expect(parsedTarget({ url })).toMatchObject({ ...expected, name: 'db.example.com:6432/erp' });
    expect(parsedTarget({ ...expected })).toMatchObject(expected);
    expect(parsedTarget({ url: 'postgres://u@[::1]/d' })).toMatchObject({
      host: '::1',
      port: 5432,
      password: undefined,
    });
  });

  test('encrypt connections to other machines and verify the host’s certificate, unless they are set otherwise', () => {
    expect(parsedTarget({ url }).ssl).toEqual({ rejectUnauthorized: true });
    for (const host of ['localhost', '127.0.0.1', '[::1]'])
      expect(parsedTarget({ url: `postgres://u:p@${host}/d` }).ssl).toBe(false);
    expect(parsedTarget({ url: 'postgres://u:p@127.0.0.1.example.com/d' }).ssl).toEqual({ rejectUnauthorized: true });
    expect(parsedTarget({ url: `${url}?sslmode=disable` }).ssl).toBe(false);
    expect(parsedTarget({ url, ssl: 'require' }).ssl).toEqual({ rejectUnauthorized: false });
    expect(parsedTarget({ url, ssl: 'verify-ca', ssl_ca: 'PEM' }).ssl).toEqual({
      rejectUnauthorized: true,
      ca: 'PEM',
      checkServerIdentity: expect.any(Function),
    });
  });

  test.each([
    [{}, 'host: is missing; or set `url` instead'],
    [{ url, host: 'a' }, 'host: is in the URL already: leave one of them out'],
    [{ url: 'mysql://u:secret@h/d' }, 'url: cannot be read'],
    [{ url: 'postgres://h/d' }, 'url: must name a user, a host and a database'],
    [{ url: 'postgres://u:secr%et@h/d' }, 'url: has a % that does not begin a percent-encoded character'],
    [{ url: `${url}?sslmode=prefer` }, 'url: has an unknown sslmode'],
    [{ url: `${url}?options=-c` }, 'url: has an unknown parameter: options'],
    [{ url, mode: 'function' }, 'function: belongs to `mode: function`'],
    [{ url, function: 'erp.take' }, 'function: belongs to `mode: function`'],
    [{ url, mode: 'function', function: 'take' }, 'function: must be a schema and a name'],
    [{ url, mode: 'function', function: 'erp.take', history: true }, 'history: belongs to `mode: tables`'],
    [{ url, schema: 'a"; drop table x' }, 'schema: must be a name'],
    [{ url, schema: 'x'.repeat(64) }, 'schema: Too big'],
    [{ url, ssl_cert: 'PEM' }, 'ssl_cert: and `ssl_key` belong together'],
  ])('that cannot work are refused by name, without showing a secret: %j', (given, message) => {
    const issues = issuesOf(given);
    expect(issues.join('\n')).toContain(message);
    expect(issues.join('\n')).not.toMatch(/secr|p%40ss|p@ss/);
  });

  test('show no secret when they are serialised', () => {
    const shown = JSON.stringify(settings.parse({ url }));
    expect(shown).not.toContain('p%40ss');
  });
});
