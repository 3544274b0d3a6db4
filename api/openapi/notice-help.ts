/** The meaning of the fields of notices. */
export const noticeHelp: Record<string, string> = {
  destination_id: 'Id of a destination.',
  message_id: 'Id of a message: GET /v1/notice-messages.',
  cost_ticket_id: 'Id of a cost ticket.',
  event_id: 'Id of the event that it tells of: GET /v1/events/{id}.',
  channel:
    'webhook: signed as the Standard Webhooks say. slack, teams: an incoming webhook. email: recipients.',
  recipients: 'Whom a mail destination writes to.',
  address: 'An e-mail address.',
  url: 'An address.',
  link: 'The end of a link in a notice.',
  code: 'A code that somebody was sent.',
  secret: 'The secret by which a webhook is signed and verified: whsec_ and base64.',
  host: 'Where it is sent.',
  disabled_reason: 'Why nothing is sent there.',
  attempts: 'How often it was tried, since it was made or last asked for by hand.',
  attempted_at: 'When it was last tried.',
  delivered_at: 'When it arrived.',
};

/** The objects that paths of notices name. */
export const noticeNouns: Record<string, string> = {
  'notice-destinations': 'Id of the destination: GET /v1/notice-destinations.',
  'notice-recipients': 'Id of the recipient, as its destination lists it.',
  'notice-messages': 'Id of the message: GET /v1/notice-messages.',
};

const destination = {
  name: 'Approvers',
  channel: 'webhook',
  url: 'https://console.example.com/hooks/svc',
};
const link = 'what-stands-behind-the-link-in-the-notice-0';

export const noticeBodies: Record<string, object> = {
  'post /v1/notice-destinations': destination,
  'put /v1/notice-destinations/:id': { kinds: ['ticket_created', 'balance_low'] },
  'post /v1/notice-destinations/:id/recipients': { address: 'ann@example.com' },
  'post /v1/notice-recipients/:id/confirm': { code: 'a1b2c3d4e5' },
  'post /v1/ticket-links/look': { link },
  'post /v1/ticket-links/decide': { link, nonce: 'of the page' },
};
