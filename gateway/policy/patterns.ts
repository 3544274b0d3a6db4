import { RE2JS } from 're2js';
import type { Builtin } from '../config/policies';

/** Where something stands in a text: from the first character, to the one behind the last. */
export interface Range {
  start: number;
  end: number;
}

/** Finds one kind of text, in time that grows with the text alone. */
export interface Pattern {
  name: string;
  find(text: string, from: number): Range[];
  /**
   * The place from which a match may be beginning at the text's end; the text's length if none can
   * be.
   */
  tail(text: string): number;
}

/** The operator's own pattern, by RE2: no pattern takes more than linear time. */
export function ownPattern(own: { name: string; pattern: string; max_length: number }): Pattern {
  const compiled = RE2JS.compile(own.pattern);
  return {
    name: own.name,
    find(text, from) {
      const matcher = compiled.matcher(text);
      const found: Range[] = [];
      for (let at = from; at <= text.length && matcher.find(at); ) {
        const range = { start: matcher.start(), end: matcher.end() };
        if (range.end > range.start) found.push(range);
        at = Math.max(range.end, range.start + 1);
      }
      return found;
    },
    tail: (text) => Math.max(0, text.length - own.max_length + 1),
  };
}

export function builtinPattern(name: Builtin): Pattern {
  return { name, ...made[name] };
}

// Digits in groups, and all that people and models write for a hyphen between them.
const digits = /[\d \p{Pd}\u2212]/u;
// An account number with a sign behind each of its characters, and one that may be beginning.
const IBAN_MOST = 68;
const iban_begun =
  /(?<![A-Z0-9])[A-Z](?:[A-Z](?:\d(?:\d(?:[ \p{Pd}\u2212]?[A-Z0-9]){0,30}[ \p{Pd}\u2212]?)?)?)?$/iu;

// These run on the engine of the language: each begins where something else ends and repeats one
// class at a time, so that nothing is tried twice over a long text.
const made: Record<Builtin, Omit<Pattern, 'name'>> = {
  email: {
    find: (text, from) =>
      text.includes('@')
        ? matched(
            /(?<![\p{L}\p{N}_.%+-])[\p{L}\p{N}_.%+-]+@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}/gu,
            text,
            from,
          )
        : [],
    tail: (text) => tailOf(text, { most: 320, is: /[\p{L}\p{N}_.%+@-]/u }),
  },
  credit_card: {
    find: (text, from) =>
      matched(/\d(?:[ \p{Pd}\u2212]?\d){12,}/gu, text, from).flatMap(cardsIn(text)),
    tail: (text) => tailOf(text, { most: 48, is: digits, first: /\d/ }),
  },
  us_ssn: {
    find: (text, from) =>
      matched(
        /(?<![\d\p{Pd}\u2212])(?!000|666|9)\d{3}(?: (?!00)\d{2} |[\p{Pd}\u2212](?!00)\d{2}[\p{Pd}\u2212])(?!0000)\d{4}(?![\d\p{Pd}\u2212])/gu,
        text,
        from,
      ),
    tail: (text) => tailOf(text, { most: 12, is: digits, first: /\d/ }),
  },
  iban: {
    find: (text, from) =>
      matched(/(?<![A-Z0-9])[A-Z]{2}\d{2}(?=[ \p{Pd}\u2212]?[A-Z0-9])/giu, text, from).flatMap(
        ibanAt(text),
      ),
    tail: (text) => {
      const end = text.slice(-IBAN_MOST);
      const at = end.search(iban_begun);
      return at < 0 ? text.length : text.length - end.length + at;
    },
  },
  api_key: {
    find: (text, from) => matched(api_key, text, from),
    tail: (text) => tailOf(text, { most: 256, is: /[\w-]/ }),
  },
  jwt: {
    find: (text, from) => matched(/(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?/g, text, from),
    tail: jwtTail,
  },
  private_key: {
    find: (text, from) => (text.includes('-----BEGIN') ? matched(private_key, text, from) : []),
    tail: (text) => tailOf(text, { most: 64, is: /[A-Z -]/, first: /-/ }),
  },
};

const api_key = new RegExp(
  `(?<![A-Za-z0-9_])(?:${[
    'sk-[\\w-]{20,}',
    'svc_[ag]k_[A-Za-z0-9]{20,}',
    '(?:AKIA|ASIA)[A-Z0-9]{16}',
    'gh[opsur]_[A-Za-z0-9]{36,}',
    'github_pat_\\w{22,}',
    'glpat-[\\w-]{20,}',
    'xox[abeprs]-[A-Za-z0-9-]{10,}',
    'AIza[\\w-]{35}',
    '[rs]k_(?:live|test)_[A-Za-z0-9]{16,}',
    'npm_[A-Za-z0-9]{36}',
    'hf_[A-Za-z0-9]{30,}',
  ].join('|')})`,
  'g',
);

// With its body, so that a redaction takes the key and not its title. A text that ends in the
// beginning of the last line is one match with it: the rest of that line may follow.
const private_key =
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[\w+/=\s\\:,.]|-(?!----END))*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|-----END[A-Z ]{0,45}-{0,4}$)?/g;

function matched(regex: RegExp, text: string, from: number): Range[] {
  const found: Range[] = [];
  regex.lastIndex = from;
  for (let match = regex.exec(text); match !== null; match = regex.exec(text)) {
    found.push({ start: match.index, end: match.index + match[0].length });
  }
  return found;
}

// Its header may hold the certificates of its key.
const JWT_MOST = 8_192;
const in_jwt = /[\w.-]/;

/** Where a token begins that the text's end may be a part of, or the first letters of one. */
function jwtTail(text: string): number {
  const run = tailOf(text, { most: JWT_MOST, is: in_jwt });
  const begun = /(?<![\w-])(?:eyJ|ey?$)/.exec(text.slice(Math.max(0, run - 1)));
  return begun === null ? text.length : Math.max(0, run - 1) + begun.index;
}

/**
 * Where the run of these characters at the text's end begins, counted from the first one that a
 * match may begin with.
 */
function tailOf(text: string, { most, is, first }: { most: number; is: RegExp; first?: RegExp }) {
  const least = Math.max(0, text.length - most);
  let at = text.length;
  while (at > least && is.test(text[at - 1] as string)) at -= 1;
  while (first !== undefined && at < text.length && !first.test(text[at] as string)) at += 1;
  return at;
}

const CARD_DIGITS_MIN = 13;
const CARD_DIGITS_MAX = 19;

/** The numbers of cards in a run of digits: each begins and ends with a group of digits. */
function cardsIn(text: string): (run: Range) => Range[] {
  return ({ start, end }) => {
    const cards: Range[] = [];
    for (let at = start; at < end; at += 1) {
      if (at > 0 && isDigit(text, at - 1)) continue;
      const card = isDigit(text, at) && cardAt(text, at, end);
      if (!card) continue;
      cards.push({ start: at, end: card });
      at = card - 1;
    }
    return cards;
  };
}

/**
 * The end of the number of a card that begins here. Luhn's two sums grow with it, as its length
 * decides which one counts.
 */
function cardAt(text: string, start: number, end: number): number | undefined {
  const sums = [0, 0] as [number, number];
  let digits = 0;
  let has_other = false;
  for (let at = start; at < end && digits < CARD_DIGITS_MAX; at += 1) {
    if (!isDigit(text, at)) continue;
    const digit = text.charCodeAt(at) - 0x30;
    const doubled = digit > 4 ? digit * 2 - 9 : digit * 2;
    sums[0] += digits % 2 === 0 ? doubled : digit;
    sums[1] += digits % 2 === 0 ? digit : doubled;
    digits += 1;
    has_other ||= digit !== 0;
    if (digits < CARD_DIGITS_MIN || isDigit(text, at + 1) || !has_other) continue;
    if ((digits % 2 === 0 ? sums[0] : sums[1]) % 10 === 0) return at + 1;
  }
  return undefined;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0x30 && code <= 0x39;
}

// The registry's lengths by country; without them every hundredth text of the form would pass for
// one.
const iban_lengths = new Map(
  (
    'AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29CH21CR22CY28CZ24DE22DK18DO28EE20EG29ES24FI18FO18FR27GB22GE22GI23GL18' +
    'GR27GT28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LI21LT20LU20LV21MC27MD24ME22MK19MR27MT31MU30NL18NO15PK24' +
    'PL28PS29PT25QA29RO24RS22SA24SC31SE24SI19SK24SM27ST25SV28TN24TR26UA29VA22VG24XK20'
  )
    .match(/.{4}/g)
    ?.map((row) => [row.slice(0, 2), Number(row.slice(2))]),
);

/** The account number that begins here; a blank or a hyphen may stand between its groups. */
function ibanAt(text: string): (begun: Range) => Range[] {
  return ({ start }) => {
    const length = iban_lengths.get(text.slice(start, start + 2).toUpperCase());
    if (length === undefined) return [];
    let compact = '';
    let at = start;
    for (let may_part = false; compact.length < length; at += 1) {
      const character = text[at] ?? '';
      if (/^[A-Z0-9]$/i.test(character)) {
        compact += character;
        may_part = true;
      } else if (may_part && /^[ \p{Pd}\u2212]$/u.test(character)) may_part = false;
      else return [];
    }
    return isMod97(compact) ? [{ start, end: at }] : [];
  };
}

function isMod97(iban: string): boolean {
  let rest = 0;
  for (const character of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}
