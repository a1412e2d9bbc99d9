/**
 * Sends one message to one channel. Resolves when the receiver has taken it; rejects with an AppError whose text has no
 * secret. HTTP goes through the guarded fetch; the address is the operator's own, so it may lie in any network. E-mail
 * goes through nodemailer.
 */
import { createTransport, type SendMailOptions } from 'nodemailer';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import type { AlertChannel, AlertSettings } from '#bridge/settings/alert-settings.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import type { AlertMessage } from './alert-store.ts';
import { textOf, titleOf } from './message-text.ts';

export interface SendDeps {
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
  /** PEM of authorities that mail servers are trusted by, beside Node's own. */
  readonly mailCa?: string | undefined;
}

type Webhook = NonNullable<AlertSettings['webhook']>;
type Email = NonNullable<AlertSettings['email']>;

const timeoutMs = 15_000;
/** Of a refusal so much is shown. */
const answerBytesMax = 2_000;

export async function sendMessage(
  deps: SendDeps,
  { webhook, email }: AlertSettings,
  channel: AlertChannel,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<void> {
  try {
    if (channel === 'webhook' && webhook) await post(deps, webhook, message, signal);
    if (channel === 'email' && email) await sendMail(deps, email, message, signal);
  } catch (error) {
    // Without its cause, which may hold what is removed from the text.
    const recovery = error instanceof AppError ? error.recovery : undefined;
    const redact = channel === 'email' ? createSecretRedactor({ ...email }).redact : redactorOf(webhook);
    // oxlint-disable-next-line preserve-caught-error
    throw new AppError('unavailable', redact(errorText(error)), recovery && { recovery });
  }
}

/** The path of an incoming webhook is a secret, as a whole and in its parts. */
function redactorOf(webhook: Webhook | undefined): (text: string) => string {
  const url = webhook?.url ?? '';
  const { pathname, search } = URL.canParse(url) ? new URL(url) : { pathname: '', search: '' };
  const parts = pathname.split('/').filter(({ length }) => length >= 8);
  const secret = [url, pathname + search, pathname, search, ...parts, ...Object.values(webhook?.headers ?? {})];
  return createSecretRedactor({ secret }).redact;
}

async function post(
  { fetch, clock }: SendDeps,
  { url, headers, template }: Webhook,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<void> {
  const response = await fetch({
    url,
    method: 'POST',
    headers: {
      'Content-Type': 'application/json; charset=utf-8',
      'X-Alert-Id': message.id,
      ...headers,
    },
    body: JSON.stringify(bodyOf(message, template)),
    allowedNetworks: anyNetwork,
    group: 'alerts',
    protocols: ['https:', 'http:'],
    timeoutMs,
    responseBytesMax: answerBytesMax,
    signal,
  });
  if (response.status >= 200 && response.status < 300) return;
  const text = response.body.toString().replaceAll(/\s+/g, ' ').trim();
  const afterMs = readRetryAfterMs(response.headers['retry-after'], clock.nowMs());
  throw new AppError('unavailable', `${new URL(url).host} answered ${response.status}: ${text || 'without a text'}`, {
    recovery: { do: 'retry', ...(afterMs !== undefined && { afterMs }) },
  });
}

/** The template with its words put in, or the whole message. */
function bodyOf(message: AlertMessage, template: string | undefined): unknown {
  const words = { id: message.id, title: titleOf(message), text: textOf(message) };
  if (template === undefined) return { ...message, ...words };
  return JSON.parse(template, (_key, value: unknown) =>
    typeof value === 'string'
      ? value.replaceAll(/\{\{(id|title|text)\}\}/g, (_, name: keyof typeof words) => words[name])
      : value,
  );
}

async function sendMail({ mailCa }: SendDeps, email: Email, message: AlertMessage, signal: AbortSignal): Promise<void> {
  const { host, port, security, user, password: pass } = email;
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
  const sent = transport.sendMail(mailOf(email, message));
  sent.catch(() => undefined);
  try {
    const { rejected } = await Promise.race([sent, ended]);
    // Those that were accepted get it again: an alert that somebody misses is worse.
    if (rejected.length > 0) throw new Error(`${host} refused ${rejected.length} of ${email.to.length} addresses`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    transport.close();
  }
}

function mailOf({ from, to }: Email, message: AlertMessage): SendMailOptions {
  return {
    from,
    to,
    subject: titleOf(message),
    text: textOf(message),
    // Mail programs show a message with the same id once.
    messageId: `<${message.id}@${message.bridge}>`,
    // No automatic answers (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated', 'X-Alert-Id': message.id },
  };
}
