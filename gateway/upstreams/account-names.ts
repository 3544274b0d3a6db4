// How providers name the account of whom they refuse. It is this gateway's own, which no client of
// it is told.

const SHOWN = '[account]';
// A name that is told as one: letters or digits with at least one digit, and no word of a sentence.
const ID = String.raw`(?=[\w.:-]{0,99}\d)[A-Za-z0-9][\w.:-]{2,99}\w`;
// What stands between the kind of an account and its name: "organization (id: `…`)".
const BETWEEN = String.raw`(?:[ _-]?(?:id|number|uuid|name))?(?: is)?[\s:=#("'\x60\\]{1,6}`;

const names: readonly RegExp[] = [
  // OpenAI's organizations, projects and users; those of Groq and OpenRouter.
  /\b(?:org|proj|user|acct|wrkspc|team)[-_](?=[A-Za-z0-9]{0,99}\d|[A-Za-z0-9]{16})[A-Za-z0-9]{6,100}\b/g,
  // Amazon's resources, which hold the number of the account.
  /\barn:aws[\w-]{0,20}:[^\s"'`,)\]}]{1,1000}/g,
  // Azure's subscriptions, with what they hold, and the hosts of resources.
  /\\?\/subscriptions\\?\/[^\s"'`,)\]}]{1,1000}/gi,
  /\b[\w-]{1,64}\.(?:openai|services\.ai|cognitiveservices)\.azure\.(?:com|us|cn)\b/gi,
  // Google's projects, and who asks for them.
  /\bprojects\\?\/[^\s"'`,)\]}]{1,300}/gi,
  /\b[\w.-]{1,100}@[\w-]{1,100}\.(?:iam|developer)\.gserviceaccount\.com\b/gi,
  /(?<=[?&]project=)[\w-]{1,100}/gi,
  // Fireworks' accounts, but for the one of the models that it serves to all.
  /\baccounts\/(?!fireworks\/)[\w-]{1,100}/gi,
];
// A kind of account, and its name behind it.
const named = new RegExp(
  String.raw`\b(organi[sz]ation|org|account|subscription|tenant|workspace|project|team|consumer|api key)(${BETWEEN})${ID}`,
  'gi',
);
// Only in the words of limits: "in organization acme on tokens per min".
const limited = /(\b(?:in|for) (?:your )?(?:organization|project) )[\w.-]{1,100}(?= on )/gi;

/** A text without what names the account that asks. */
export function withoutAccounts(text: string): string {
  return names
    .reduce((left, name) => left.replaceAll(name, SHOWN), text)
    .replaceAll(named, `$1$2${SHOWN}`)
    .replaceAll(limited, `$1${SHOWN}`);
}
