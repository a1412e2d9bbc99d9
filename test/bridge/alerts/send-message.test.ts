/** What the receivers of alerts get: signed JSON, the forms of Slack and Teams, and mail from a real SMTP server. */
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { AlertMessage } from '#bridge/alerts/alert.ts';
import { alertSettings, type ChannelSettings } from '#bridge/alerts/alert-settings.ts';
import { slackForm, teamsForm, titleOf } from '#bridge/alerts/message-forms.ts';
import { sendMessage } from '#bridge/alerts/send-message.ts';
import { signatureMatches } from '#contract/signature.ts';
import { systemClock } from '#platform/clock.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import { testCertificates, testOutgoing } from '../../harness/test-certificates.ts';

const message: AlertMessage = {
  id: '01a204d0-25a1-7000-9b6f-7339ce7eace2',
  bridge: 'bridge.example.com',
  made: '2030-01-01T00:00:30.000000Z',
  test: false,
  more: 0,
  alerts: [
    {
      id: '01a204d0-2668-7000-9a9f-7171b4c21d8e',
      event: 'started',
      kind: 'dead-letters',
      subject: 'flow sap',
      started: '2030-01-01T00:00:00.000000Z',
      ended: null,
      summary: 'Flow sap: 3 documents refused: <!channel> *Müller* & [Söhne](http://evil.example)',
      action: 'See them: bridge dead-letters --flow sap',
    },
  ],
};

function channelOf(channel: Record<string, unknown>): ChannelSettings {
  const [made] = alertSettings.parse({ channels: [{ name: 'ops', ...channel }] }).channels;
  if (!made) throw new Error('no channel');
  return made;
}

const never = new AbortController().signal;

/** Sends over a fetch that answers as the test says. */
async function sentTo(channel: Record<string, unknown>, answer: { status?: number; body?: string } = {}) {
  const requests: GuardedRequest[] = [];
  const fetch = async (request: GuardedRequest) => {
    requests.push(request);
    const { status = 200, body = '' } = answer;
    return { status, headers: {}, body: Buffer.from(body), truncated: false, durationMs: 1 };
  };
  const failure = await sendMessage({ fetch, clock: systemClock }, channelOf(channel), message, never).then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { request: requests[0], failure };
}

describe('a webhook', () => {
  test('gets the message as JSON, signed over its bytes, with the header of the settings', async () => {
    const { request, failure } = await sentTo({
      type: 'webhook',
      url: 'https://alerts.example.com/in',
      signing_key: 'a key of sixteen or more',
      header: { name: 'Authorization', value: 'Bearer very-secret' },
    });
    expect(failure).toBeUndefined();
    expect(JSON.parse(String(request?.body))).toEqual(message);
    const signature = request?.headers?.['X-Signature'];
    expect(signatureMatches(Buffer.from(String(request?.body)), signature, ['a key of sixteen or more'])).toBe(true);
    expect(request?.headers).toMatchObject({ Authorization: 'Bearer very-secret', 'X-Alert-Id': message.id });
  });

  test('that repeats its secrets in a refusal does not bring them into the error', async () => {
    const { failure } = await sentTo(
      { type: 'webhook', url: 'https://alerts.example.com/in/4f5e6d7c8b', header: { name: 'X-Key', value: 'k-98765' } },
      { status: 403, body: 'POST /in/4f5e6d7c8b with k-98765\nis not allowed' },
    );
    expect(failure).toBe('alerts.example.com answered 403: POST [secret] with [secret] is not allowed');
  });
});

describe('Slack', () => {
  test('gets one text without markup, in which foreign words link and mention nothing', async () => {
    const { request } = await sentTo({ type: 'slack', url: 'https://hooks.slack.com/services/T0/B0/abcdefgh' });
    expect(JSON.parse(String(request?.body))).toEqual({
      mrkdwn: false,
      text:
        'ALERT: Flow sap: 3 documents refused: &lt;!channel&gt; *Müller* &amp; [Söhne](http://evil.example)\n\n' +
        'ALERT since 2030-01-01 00:00:00 UTC: Flow sap: 3 documents refused: &lt;!channel&gt; *Müller* &amp; ' +
        '[Söhne](http://evil.example)\n-&gt; See them: bridge dead-letters --flow sap\n\n' +
        'sourcing-bridge at bridge.example.com',
    });
    expect(Object.keys(request?.headers ?? {})).toEqual(['Content-Type']);
  });

  test('gets no more characters than it shows', () => {
    const alerts = Array.from({ length: 30 }, () => ({ ...message.alerts[0], summary: 'x'.repeat(400) }));
    const { text } = slackForm({ ...message, alerts } as AlertMessage) as { text: string };
    expect(text.length).toBeLessThan(4_100);
  });
});

describe('Teams', () => {
  test('gets an adaptive card of text runs, which have no markup', () => {
    const form = teamsForm(message) as { attachments: { contentType: string; content: { body: object[] } }[] };
    expect(form).toMatchObject({
      type: 'message',
      attachments: [
        {
          contentType: 'application/vnd.microsoft.card.adaptive',
          content: { type: 'AdaptiveCard', version: '1.4' },
        },
      ],
    });
    const blocks = form.attachments[0]?.content.body as { type: string; inlines: { type: string; text: string }[] }[];
    expect(new Set(blocks.flatMap(({ type, inlines }) => [type, ...inlines.map((run) => run.type)]))).toEqual(
      new Set(['RichTextBlock', 'TextRun']),
    );
    expect(blocks[1]?.inlines[0]?.text).toContain('[Söhne](http://evil.example)');
  });

  test('that answers 200 with its words for a failure has not taken the message', async () => {
    const { failure } = await sentTo(
      { type: 'teams', url: 'https://example.webhook.office.com/webhookb2/abcdefgh' },
      { body: 'Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429' },
    );
    expect(failure).toMatch(/^example\.webhook\.office\.com answered 200: Webhook message delivery failed/);
  });

  test('gets less than the 28 KB that it takes', () => {
    const alerts = Array.from({ length: 30 }, () => ({ ...message.alerts[0], summary: '…'.repeat(400) }));
    const bytes = Buffer.byteLength(JSON.stringify(teamsForm({ ...message, alerts } as AlertMessage)));
    expect(bytes).toBeLessThan(28_000);
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
    type: 'email',
    host: 'localhost',
    from: 'bridge@example.com',
    to: ['ops@example.com', 'buyers@example.com'],
    user: 'bridge',
    password: 'right password',
  };
  const deps = { fetch: testOutgoing().fetch, clock: systemClock, mailCa: testCertificates().caPem };
  const send = (channel: Record<string, unknown>, own: object = deps) =>
    sendMessage({ ...deps, ...own }, channelOf({ ...base, ...channel }), message, never);

  test('is sent with STARTTLS and the login, and has an id that a repeat shares', async () => {
    const { port, mails } = await startServer();
    await send({ port });
    await send({ port });
    expect(mails).toMatchObject([
      { from: 'bridge@example.com', to: base.to, user: 'bridge', secure: true },
      { from: 'bridge@example.com', to: base.to, user: 'bridge', secure: true },
    ]);
    for (const { text } of mails) expect(text).toContain(`Message-ID: <${message.id}@bridge.example.com>`);
    expect(mails[0]?.text).toContain('See them: bridge dead-letters --flow sap');
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

test('a title is one line of at most 150 characters', () => {
  const [alert] = message.alerts;
  const many = { ...message, more: 7, alerts: [{ ...alert, summary: 'x'.repeat(400) }, alert] } as AlertMessage;
  expect(titleOf(many)).toMatch(/^ALERT: x+… and 8 more$/);
  expect(titleOf(many).length).toBeLessThanOrEqual(150);
  expect(titleOf({ ...message, test: true })).toBe('Test of the alerts of bridge.example.com');
});

describe('the settings', () => {
  const faultsOf = (channel: object) => alertSettings.safeParse({ channels: [{ name: 'ops', ...channel }] }).success;
  const mail = { type: 'email', host: 'smtp.example.com', from: 'a@example.com', to: ['b@example.com'] };

  test('refuse a login over a connection that is not encrypted, and half of a login', () => {
    expect(faultsOf({ ...mail, user: 'a', password: 'b' })).toBe(true);
    expect(faultsOf({ ...mail, user: 'a', password: 'b', security: 'none' })).toBe(false);
    expect(faultsOf({ ...mail, user: 'a' })).toBe(false);
    expect(faultsOf({ ...mail, from: 'a@example.com\r\nBcc: c@example.com' })).toBe(false);
  });

  test('refuse a URL with a login, and headers that a request has already', () => {
    const hook = { type: 'webhook', url: 'https://alerts.example.com/in' };
    expect(faultsOf(hook)).toBe(true);
    expect(faultsOf({ ...hook, url: 'https://a:b@alerts.example.com/in' })).toBe(false);
    expect(faultsOf({ ...hook, url: 'file:///etc/passwd' })).toBe(false);
    expect(faultsOf({ ...hook, header: { name: 'Host', value: 'x' } })).toBe(false);
    expect(faultsOf({ ...hook, header: { name: 'X-Key', value: 'a\r\nb' } })).toBe(false);
  });
});
