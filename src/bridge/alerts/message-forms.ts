/**
 * A message in the forms of its receivers: Slack, Teams, and text for an e-mail. Pure. Alerts hold words of ERPs and
 * sources, which must stay words: no mention, no link and no markup of theirs takes effect.
 */
import type { AlertMessage, NoticeEvent } from './alert.ts';

const words: Record<NoticeEvent, string> = { started: 'ALERT', reminder: 'STILL', ended: 'OVER' };

/** One line that says what the message is about, at most 150 characters. */
export function titleOf({ bridge, test, alerts, more }: AlertMessage): string {
  if (test) return `Test of the alerts of ${bridge}`;
  const [first] = alerts;
  const others = alerts.length - 1 + more;
  const rest = others > 0 ? ` and ${others} more` : '';
  const text = first ? `${words[first.event]}: ${first.summary}` : 'Alerts';
  const room = 150 - rest.length;
  return `${text.length > room ? `${text.slice(0, room - 1).toWellFormed()}…` : text}${rest}`;
}

interface Entry {
  readonly head: string;
  readonly action: string | undefined;
}

function entriesOf({ alerts }: AlertMessage): Entry[] {
  return alerts.map(({ event, started, ended, summary, action }) => {
    const since = ended === null ? `since ${toSecond(started)}` : `from ${toSecond(started)} to ${toSecond(ended)}`;
    return { head: `${words[event]} ${since}: ${summary}`, action: event === 'ended' ? undefined : action };
  });
}

function footOf({ bridge, more, test }: AlertMessage): string {
  const sender = `sourcing-bridge at ${bridge}`;
  if (test) return `${sender}: alerts arrive here.`;
  return more > 0 ? `${more} more: bridge alerts list. ${sender}` : sender;
}

/** Plain text with one paragraph for each alert. */
export function textOf(message: AlertMessage): string {
  const paragraphs = entriesOf(message).map(({ head, action }) =>
    action === undefined ? head : `${head}\n-> ${action}`,
  );
  return [...paragraphs, footOf(message)].join('\n\n');
}

/** Slack's own advice for the text of a message. */
const slackMax = 4_000;

/**
 * The body for an incoming webhook of Slack. `&`, `<` and `>` are escaped, as its page "Formatting text for app
 * surfaces" says: without them there is no link and no mention. `mrkdwn: false` leaves stars and underscores as they are.
 */
export function slackForm(message: AlertMessage): object {
  const text = `${titleOf(message)}\n\n${textOf(message)}`;
  const cut = text.length > slackMax ? `${text.slice(0, slackMax).toWellFormed()}…` : text;
  const escaped = cut.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return { text: escaped, mrkdwn: false };
}

/** Teams takes 28 KB: with this many characters an alert of three bytes a character fits. */
const teamsMax = 7_000;

/**
 * The body for a Teams workflow "When a Teams webhook request is received": one adaptive card (version 1.4). The text
 * stands in text runs, which have no markup.
 */
export function teamsForm(message: AlertMessage): object {
  let left = teamsMax;
  const body: object[] = [paragraph(titleOf(message), { weight: 'Bolder' })];
  for (const { head, action } of entriesOf(message)) {
    left -= head.length + (action?.length ?? 0);
    if (left < 0) {
      body.push(paragraph('… bridge alerts list shows all.'));
      break;
    }
    body.push(paragraph(head));
    if (action !== undefined) body.push(paragraph(action, { isSubtle: true }));
  }
  body.push(paragraph(footOf(message), { isSubtle: true, size: 'Small' }));
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body,
  };
  return {
    type: 'message',
    attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', contentUrl: null, content }],
  };
}

function paragraph(text: string, look: { weight?: string; isSubtle?: boolean; size?: string } = {}): object {
  return { type: 'RichTextBlock', spacing: 'Medium', inlines: [{ type: 'TextRun', text, ...look }] };
}

function toSecond(timestamp: string): string {
  return `${timestamp.slice(0, 19).replace('T', ' ')} UTC`;
}
