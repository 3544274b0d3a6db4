import type { Text } from './texts';

// Names are other people's: Slack gets them as plain text, which has no markup, Teams escaped.

/** So many facts one block of Slack takes. */
const FACTS_MAX = 10;

/** A message for an incoming webhook of Slack. */
export function slackMessage({ title, facts, links }: Text): object {
  const section = { type: 'section', text: { type: 'plain_text', text: title } };
  const fields = facts.map(({ label, value }) => ({
    type: 'plain_text',
    text: `${label}: ${value}`,
  }));
  const pages = Array.from({ length: Math.ceil(fields.length / FACTS_MAX) }, (_, n) =>
    fields.slice(n * FACTS_MAX, (n + 1) * FACTS_MAX),
  );
  const buttons = links.map(({ label, url, style }) => ({
    type: 'button',
    text: { type: 'plain_text', text: label },
    url,
    ...(style && { style }),
  }));
  return {
    text: title.replace(/[&<>]/g, (mark) => slackMarks[mark] as string),
    blocks: [
      section,
      ...pages.map((page) => ({ type: 'section', fields: page })),
      ...(buttons.length > 0 ? [{ type: 'actions', elements: buttons }] : []),
    ],
  };
}

const slackMarks: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** A message for an incoming webhook of Teams: an adaptive card. */
export function teamsMessage({ title, facts, links }: Text): object {
  const card = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: [
      { type: 'TextBlock', text: forTeams(title), weight: 'Bolder', wrap: true },
      ...(facts.length > 0
        ? [
            {
              type: 'FactSet',
              facts: facts.map(({ label, value }) => ({
                title: forTeams(label),
                value: forTeams(value),
              })),
            },
          ]
        : []),
    ],
    actions: links.map(({ label, url, style }) => ({
      type: 'Action.OpenUrl',
      title: label,
      url,
      ...(style && { style: style === 'primary' ? 'positive' : 'destructive' }),
    })),
  };
  const contentType = 'application/vnd.microsoft.card.adaptive';
  return { type: 'message', attachments: [{ contentType, contentUrl: null, content: card }] };
}

const teams_failure = /Webhook message delivery failed(?:[\s\S]*?HTTP error (\d{3}))?/i;

/**
 * The status with which Teams could not deliver a message that it answers with 200 all the same
 * (Microsoft, "Create incoming webhooks", rate limiting); 502 if it names none.
 */
export function teamsFailure(text: string): number | undefined {
  const found = teams_failure.exec(text);
  return found === null ? undefined : Number(found[1] ?? 502);
}

/** Without the marks of Markdown, of mentions and of the card's own functions. */
function forTeams(text: string): string {
  return text
    .replace(/[\\`*_[\]()#~>|]/g, '\\$&')
    .replace(/&(?=\w+;|\\#)/g, '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('{{', '{ {');
}
