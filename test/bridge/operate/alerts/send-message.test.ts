/** What the receivers of alerts get: JSON by a template, and mail from a real SMTP server. */
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { AlertMessage, ToldCondition } from '#bridge/operate/alerts/alert-store.ts';
import { textOf, titleOf } from '#bridge/operate/alerts/message-text.ts';
import { sendMessage } from '#bridge/operate/alerts/send-message.ts';
import { alertSettings } from '#bridge/settings/alert-settings.ts';
import { systemClock } from '#platform/clock.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import { testCertificates, testOutgoing } from '../../../harness/test-certificates.ts';

const alert: ToldCondition = {
  id: '01a204d0-2668-7000-9a9f-7171b4c21d8e',
  event: 'began',
  kind: 'dead-letters',
  subject: 'flow sap',
  since: '2030-01-01T00:00:00.000000Z',
  summary: 'Flow sap: 3 documents refused, the latest: <!channel> "Müller" & {{id}}',
  action: 'See why: bridge dead-letters --flow sap',
};
const message: AlertMessage = {
  id: '01a204d0-25a1-7000-9b6f-7339ce7eace2',
  bridge: 'bridge.example.com',
  more: 0,
  alerts: [alert],
};
const never = new AbortController().signal;

/** Sends over a fetch that answers as the test says. */
async function sentTo(webhook: Record<string, unknown>, answer: { status?: number; body?: string } = {}) {
  const requests: GuardedRequest[] = [];
  const fetch = async (request: GuardedRequest) => {
    requests.push(request);
    const { status = 200, body = '' } = answer;
    return { status, headers: {}, body: Buffer.from(body), truncated: false };
  };
  const settings = alertSettings.parse({ webhook });
  const failure = await sendMessage({ fetch, clock: systemClock }, settings, 'webhook', message, never).then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { request: requests[0], body: JSON.parse(String(requests[0]?.body)) as unknown, failure };
}

describe('a webhook', () => {
  const url = 'https://alerts.example.com/in/4f5e6d7c8b';

  test('gets the message and its words as JSON, with the headers of the settings', async () => {
    const { request, body, failure } = await sentTo({ url, headers: { Authorization: 'Bearer very-secret' } });
    expect(failure).toBeUndefined();
    expect(body).toEqual({ ...message, title: titleOf(message), text: textOf(message) });
    expect(request?.headers).toMatchObject({ Authorization: 'Bearer very-secret', 'X-Alert-Id': message.id });
  });

  test('of Slack or Teams gets the template with the words put in: none of them becomes a mention or markup', async () => {
    const slack = await sentTo({ url, template: '{"text": "{{text}}", "mrkdwn": false}' });
    expect(slack.body).toEqual({ text: textOf(message), mrkdwn: false });
    expect(textOf(message)).toContain('‹!channel› "Müller" & {{id}}');
    const run = { type: 'TextRun', text: '{{title}} ({{id}}): {{text}}' };
    const template = {
      type: 'message',
      attachments: [{ content: { body: [{ type: 'RichTextBlock', inlines: [run] }] } }],
    };
    const teams = await sentTo({ url, template: JSON.stringify(template) });
    const text = `${titleOf(message)} (${message.id}): ${textOf(message)}`;
    expect(teams.body).toEqual({
      type: 'message',
      attachments: [{ content: { body: [{ type: 'RichTextBlock', inlines: [{ type: 'TextRun', text }] }] } }],
    });
  });

  test('that repeats its secrets in a refusal does not bring them into the error', async () => {
    const { failure } = await sentTo(
      { url, headers: { 'X-Key': 'k-98765' } },
      { status: 403, body: 'POST /in/4f5e6d7c8b with k-98765\nis not allowed' },
    );
    expect(failure).toBe('alerts.example.com answered 403: POST [secret] with [secret] is not allowed');
  });
});

describe('an e-mail', () => {
  interface Mail {
    from: string;
    to: string[];
    user: string | undefined;
    secure: boolean;
    text: string;
  }

  async function startServer(options: SMTPServerOptions = {}): Promise<{ port: number; mails: Mail[] }> {
    const mails: Mail[] = [];
    const { certPem: cert, keyPem: key } = testCertificates();
    const server = new SMTPServer({
      cert,
      key,
      disableReverseLookup: true,
      onAuth: ({ username, password }, _session, done) =>
        password === 'right password' ? done(null, { user: username }) : done(new Error(`no, not ${password}`)),
      onData: (stream, session, done) => {
        let text = '';
        stream.on('data', (chunk) => {
          text += String(chunk);
        });
        stream.on('end', () => {
          const { mailFrom, rcptTo } = session.envelope;
          const from = mailFrom === false ? '' : mailFrom.address;
          mails.push({
            from,
            to: rcptTo.map(({ address }) => address),
            user: session.user,
            secure: session.secure,
            text,
          });
          done();
        });
      },
      ...options,
    });
    server.on('error', () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
    return { port: (server.server.address() as AddressInfo).port, mails };
  }

  const base = {
    host: 'localhost',
    from: 'bridge@example.com',
    to: ['ops@example.com', 'buyers@example.com'],
    user: 'bridge',
    password: 'right password',
  };
  const deps = { fetch: testOutgoing().fetch, clock: systemClock, mailCa: testCertificates().caPem };
  const send = (channel: Record<string, unknown>, own: object = deps) =>
    sendMessage({ ...deps, ...own }, alertSettings.parse({ email: { ...base, ...channel } }), 'email', message, never);

  test('is sent with STARTTLS and the login, and has an id that a repeat shares', async () => {
    const { port, mails } = await startServer();
    await send({ port });
    await send({ port });
    expect(mails).toMatchObject([
      { from: 'bridge@example.com', to: base.to, user: 'bridge', secure: true },
      { from: 'bridge@example.com', to: base.to, user: 'bridge', secure: true },
    ]);
    for (const { text } of mails) expect(text).toContain(`Message-ID: <${message.id}@bridge.example.com>`);
    expect(mails[0]?.text).toContain('bridge dead-letters --flow sap');
    expect(mails[0]?.text).toContain('Auto-Submitted: auto-generated');
  });

  test('is sent with TLS from the first byte on', async () => {
    const { port, mails } = await startServer({ secure: true });
    await send({ port, security: 'tls' });
    expect(mails).toMatchObject([{ secure: true, user: 'bridge' }]);
  });

  test('is not sent to a server without STARTTLS, nor to one whose certificate is not trusted', async () => {
    const plain = await startServer({ hideSTARTTLS: true, disabledCommands: ['STARTTLS'] });
    await expect(send({ port: plain.port })).rejects.toThrow(/STARTTLS/);
    const stranger = await startServer();
    await expect(send({ port: stranger.port }, { mailCa: undefined })).rejects.toThrow(/certificate/i);
    expect([...plain.mails, ...stranger.mails]).toEqual([]);
  });

  test('fails when the login is refused, without the password in the error, and when an address is refused', async () => {
    const { port, mails } = await startServer({
      onRcptTo: ({ address }, _session, done) =>
        done(address === 'gone@example.com' ? new Error('no such mailbox') : undefined),
    });
    const wrong = await send({ port, password: 'wrong password' }).catch((error: Error) => error.message);
    expect(wrong).toContain('[secret]');
    expect(wrong).not.toContain('wrong password');
    expect(mails).toEqual([]);
    await expect(send({ port, to: ['ops@example.com', 'gone@example.com'] })).rejects.toThrow(
      'localhost refused 1 of 2 addresses',
    );
  });

  test('to a server that is away fails with its name', async () => {
    await expect(send({ port: 1 })).rejects.toThrow(/ECONNREFUSED/);
  });
});

test('the words of many conditions have a bounded length, and count what they leave out', () => {
  const many = {
    ...message,
    more: 9_970,
    alerts: Array.from({ length: 30 }, () => ({ ...alert, summary: 'x'.repeat(400) })),
  };
  expect(titleOf(many)).toMatch(/^ALERT: x+… and 9999 more$/);
  expect(titleOf(many).length).toBeLessThanOrEqual(150);
  expect(textOf(many).length).toBeLessThan(4_000);
  const shown = textOf(many).split('ALERT since').length - 1;
  expect(textOf(many)).toContain(`${10_000 - shown} more: bridge status`);
  expect(titleOf({ ...message, alerts: [] })).toBe('Test of the alerts of bridge.example.com');
});

describe('the settings', () => {
  const isValid = (alerts: object) => alertSettings.safeParse(alerts).success;
  const mail = { host: 'smtp.example.com', from: 'a@example.com', to: ['b@example.com'] };

  test('refuse a login over a connection that is not encrypted, and half of a login', () => {
    expect(isValid({ email: { ...mail, user: 'a', password: 'b' } })).toBe(true);
    expect(isValid({ email: { ...mail, user: 'a', password: 'b', security: 'none' } })).toBe(false);
    expect(isValid({ email: { ...mail, user: 'a' } })).toBe(false);
    expect(isValid({ email: { ...mail, from: 'a@example.com\r\nBcc: c@example.com' } })).toBe(false);
  });

  test('refuse a URL with a login, headers that a request has already, and a template that is no JSON', () => {
    const hook = { url: 'https://alerts.example.com/in' };
    expect(isValid({ webhook: hook })).toBe(true);
    expect(isValid({ webhook: { ...hook, url: 'https://a:b@alerts.example.com/in' } })).toBe(false);
    expect(isValid({ webhook: { ...hook, url: 'file:///etc/passwd' } })).toBe(false);
    expect(isValid({ webhook: { ...hook, headers: { Host: 'x' } } })).toBe(false);
    expect(isValid({ webhook: { ...hook, headers: { 'X-Key': 'a\r\nb' } } })).toBe(false);
    expect(isValid({ webhook: { ...hook, template: '{"text": {{text}}}' } })).toBe(false);
    expect(isValid({ webhook: { ...hook, template: '{"text": "nothing"}' } })).toBe(false);
  });
});
