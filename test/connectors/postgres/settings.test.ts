import { describe, expect, test } from 'vitest';
import { placeOf, settings } from '../../../connectors/postgres/settings.ts';

const url = 'postgres://bridge:p%40ss@db.example.com:6432/erp';
const issuesOf = (given: Record<string, unknown>) =>
  settings.safeParse(given).error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? [];
const placeFor = (given: Record<string, unknown>) => placeOf(settings.parse(given));

describe('settings', () => {
  test('name a place by a URL or one by one', () => {
    const expected = { host: 'db.example.com', port: 6432, user: 'bridge', password: 'p@ss', database: 'erp' };
    expect(placeFor({ url })).toMatchObject({ ...expected, name: 'db.example.com:6432/erp' });
    expect(placeFor({ ...expected })).toMatchObject(expected);
    expect(placeFor({ url: 'postgres://u@[::1]/d' })).toMatchObject({ host: '::1', port: 5432, password: undefined });
  });

  test('encrypt whatever leaves this machine, and trust no certificate that is not the host’s, unless told otherwise', () => {
    expect(placeFor({ url }).ssl).toEqual({ rejectUnauthorized: true });
    for (const host of ['localhost', '127.0.0.1', '[::1]'])
      expect(placeFor({ url: `postgres://u:p@${host}/d` }).ssl).toBe(false);
    expect(placeFor({ url: 'postgres://u:p@127.0.0.1.example.com/d' }).ssl).toEqual({ rejectUnauthorized: true });
    expect(placeFor({ url: `${url}?sslmode=disable` }).ssl).toBe(false);
    expect(placeFor({ url, ssl: 'require' }).ssl).toEqual({ rejectUnauthorized: false });
    expect(placeFor({ url, ssl: 'verify-ca', ssl_ca: 'PEM' }).ssl).toEqual({
      rejectUnauthorized: true,
      ca: 'PEM',
      checkServerIdentity: expect.any(Function),
    });
  });

  test.each([
    [{}, 'host: is missing; or give `url` instead'],
    [{ url, host: 'a' }, 'host: stands in the URL already: leave one of them out'],
    [{ url: 'mysql://u:secret@h/d' }, 'url: cannot be read'],
    [{ url: 'postgres://h/d' }, 'url: must name a user, a host and a database'],
    [{ url: 'postgres://u:secr%et@h/d' }, 'url: has a % that begins no percent-encoded character'],
    [{ url: `${url}?sslmode=prefer` }, 'url: has an sslmode that is not known'],
    [{ url: `${url}?options=-c` }, 'url: has a parameter that is not known: options'],
    [{ url, mode: 'function' }, 'function: belongs to `mode: function`'],
    [{ url, function: 'erp.take' }, 'function: belongs to `mode: function`'],
    [{ url, mode: 'function', function: 'take' }, 'function: must be a schema and a name'],
    [{ url, mode: 'function', function: 'erp.take', history: true }, 'history: belongs to `mode: tables`'],
    [{ url, schema: 'a"; drop table x' }, 'schema: must be a name'],
    [{ url, schema: 'x'.repeat(64) }, 'schema: Too big'],
    [{ url, ssl_cert: 'PEM' }, 'ssl_cert: and `ssl_key` belong together'],
  ])('that cannot work are refused where they stand, without a secret: %j', (given, said) => {
    const issues = issuesOf(given);
    expect(issues.join('\n')).toContain(said);
    expect(issues.join('\n')).not.toMatch(/secr|p%40ss|p@ss/);
  });

  test('show no secret when they are written out', () => {
    const shown = JSON.stringify(settings.parse({ url }));
    expect(shown).not.toContain('p%40ss');
  });
});
