/** A message in words. Pure. Conditions hold words of ERPs and sources, which must stay words. */
import type { AlertEvent, AlertMessage } from './alert-store.ts';

const words: Record<AlertEvent, string> = { began: 'ALERT', lasts: 'STILL', ended: 'OVER' };

/** Slack shows 4,000 characters of a text, and takes no more of it. */
const textMax = 3_900;
const titleMax = 150;

/** One line that says what the message is about. A message without alerts is a test. */
export function titleOf({ bridge, alerts, more }: AlertMessage): string {
  const [first] = alerts;
  if (!first) return `Test of the alerts of ${bridge}`;
  const others = alerts.length - 1 + more;
  const rest = others > 0 ? ` and ${others} more` : '';
  return `${cut(plain(`${words[first.event]}: ${first.summary}`), titleMax - rest.length)}${rest}`;
}

/** Plain text with one paragraph for each alert; those for which there is no room are counted. */
export function textOf({ bridge, alerts, more }: AlertMessage): string {
  const sender = `sourcing-bridge at ${bridge}`;
  if (alerts.length === 0) return `${sender}: alerts arrive here.`;
  const paragraphs: string[] = [];
  let left = textMax;
  for (const { event, since, summary, action } of alerts) {
    const head = `${words[event]} since ${since.slice(0, 16).replace('T', ' ')} UTC: ${summary}`;
    const text = plain(event === 'ended' ? head : `${head}\n→ ${action}`);
    left -= text.length + 2;
    if (left < 0) break;
    paragraphs.push(text);
  }
  const hidden = alerts.length - paragraphs.length + more;
  return [...paragraphs, hidden > 0 ? `${hidden} more: bridge status. ${sender}` : sender].join('\n\n');
}

/** Without the characters by which Slack makes links and mentions, and HTML its elements, of foreign words. */
function plain(text: string): string {
  return text.replaceAll('<', '‹').replaceAll('>', '›');
}

function cut(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax - 1).toWellFormed()}…` : text;
}
