/**
 * Sends one message to one channel. Resolves when the receiver has taken it; rejects with an AppError whose text has no
 * secret. HTTP goes through the guarded fetch; the address is the operator's own, so it may lie in any network. E-mail
 * goes through nodemailer.
 */
import { createTransport, type SendMailOptions } from 'nodemailer';
import { signBody } from '#contract/signature.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import { createSecretRedactor } from '../flows/secret-redactor.ts';
import type { AlertMessage } from './alert.ts';
import type { ChannelSettings } from './alert-settings.ts';
import { slackForm, teamsForm, textOf, titleOf } from './message-forms.ts';

export interface SendDeps {
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
  /** PEM of authorities that mail servers are trusted by, beside Node's own. */
  readonly mailCa?: string | undefined;
}

const timeoutMs = 15_000;
/** Of a refusal so much is shown. */
const answerBytesMax = 2_000;

export async function sendMessage(
  deps: SendDeps,
  channel: ChannelSettings,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<void> {
  try {
    await (channel.type === 'email' ? sendMail(deps, channel, message, signal) : post(deps, channel, message, signal));
  } catch (error) {
    // Without its cause, which may hold what is removed from the text.
    const recovery = error instanceof AppError ? error.recovery : undefined;
    // oxlint-disable-next-line preserve-caught-error
    throw new AppError('unavailable', redactorOf(channel)(errorText(error)), recovery && { recovery });
  }
}

/** The path of an incoming webhook is a secret, as a whole and in its parts. */
function redactorOf(channel: ChannelSettings): (text: string) => string {
  if (channel.type === 'email') return createSecretRedactor(channel).redact;
  const { pathname, search } = URL.canParse(channel.url) ? new URL(channel.url) : { pathname: '', search: '' };
  const parts = pathname.split('/').filter(({ length }) => length >= 8);
  const own = channel.type === 'webhook' ? [channel.header?.value, channel.signing_key] : [];
  return createSecretRedactor({ secret: [channel.url, pathname + search, pathname, search, ...parts, ...own] }).redact;
}

async function post(
  { fetch, clock }: SendDeps,
  channel: Exclude<ChannelSettings, { type: 'email' }>,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<void> {
  const forms = { webhook: () => message, slack: () => slackForm(message), teams: () => teamsForm(message) };
  const body = JSON.stringify(forms[channel.type]());
  const headers: Record<string, string> = { 'Content-Type': 'application/json; charset=utf-8' };
  if (channel.type === 'webhook') {
    headers['X-Alert-Id'] = message.id;
    if (channel.signing_key !== undefined) headers['X-Signature'] = signBody(body, channel.signing_key);
    if (channel.header) headers[channel.header.name] = channel.header.value;
  }
  const response = await fetch({
    url: channel.url,
    method: 'POST',
    headers,
    body,
    allowedNetworks: anyNetwork,
    group: `alerts ${channel.name}`,
    protocols: ['https:', 'http:'],
    timeoutMs,
    responseBytesMax: answerBytesMax,
    signal,
  });
  const { host } = new URL(channel.url);
  const text = response.body.toString().replaceAll(/\s+/g, ' ').trim();
  // The older webhooks of Teams answer 200 when they could not deliver, and say so in the text.
  const isRefused =
    channel.type === 'teams' && /webhook message delivery failed|endpoint returned http error/i.test(text);
  if (response.status >= 200 && response.status < 300 && !isRefused) return;
  const afterMs = readRetryAfterMs(response.headers['retry-after'], clock.nowMs());
  throw new AppError('unavailable', `${host} answered ${response.status}: ${text || 'without a text'}`, {
    recovery: { do: 'retry', ...(afterMs !== undefined && { afterMs }) },
  });
}

async function sendMail(
  { mailCa }: SendDeps,
  channel: Extract<ChannelSettings, { type: 'email' }>,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<void> {
  const { host, port, security, user, password: pass } = channel;
  const transport = createTransport({
    host,
    port,
    secure: security === 'tls',
    requireTLS: security === 'starttls',
    ignoreTLS: security === 'none',
    ...(user !== undefined && pass !== undefined && { auth: { user, pass } }),
    ...(mailCa !== undefined && { tls: { ca: mailCa } }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const { promise: ended, reject: end } = Promise.withResolvers<never>();
  const onAbort = () => end(new Error('the message was given up, as the process stops'));
  const timer = setTimeout(() => end(new Error(`${host} did not take the message in time`)), 2 * timeoutMs);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  const sent = transport.sendMail(mailOf(channel, message));
  sent.catch(() => undefined);
  try {
    const { rejected } = await Promise.race([sent, ended]);
    // Those that were accepted get it again: an alert that somebody misses is worse.
    if (rejected.length > 0) throw new Error(`${host} refused ${rejected.length} of ${channel.to.length} addresses`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    transport.close();
  }
}

function mailOf({ from, to }: Extract<ChannelSettings, { type: 'email' }>, message: AlertMessage): SendMailOptions {
  return {
    from,
    to,
    subject: titleOf(message),
    text: textOf(message),
    // Mail programs show a message with the same id once.
    messageId: `<${message.id}@${message.bridge}>`,
    date: new Date(message.made),
    // No automatic answers (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated', 'X-Alert-Id': message.id },
  };
}
