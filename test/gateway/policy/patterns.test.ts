import { createInspector } from '../../../gateway/policy/inspector';

/** What a pattern finds in a text, as it stands there. */
function found(text: string, pattern: string): string[] {
  const settings = { stages: ['input' as const], action: 'block' as const, blocked_terms: [] };
  const inspector = createInspector({ ...settings, detect_patterns: [pattern as 'email'] });
  const { matches } = inspector.look(text, 0, true);
  return [...new Set(matches.map(({ start, end }) => text.slice(start, end)))];
}

test.each([
  ['email', 'write to Jo.Doe+x@mail.example.org, please', 'Jo.Doe+x@mail.example.org'],
  ['email', 'j\u00fcrgen@b\u00fccher.example', 'j\u00fcrgen@b\u00fccher.example'],
  ['credit_card', 'no. 12 4111 1111 1111 1111 99', '4111 1111 1111 1111'],
  ['credit_card', 'x5500-0000-0000-0004x', '5500-0000-0000-0004'],
  ['credit_card', '378282246310005', '378282246310005'],
  ['credit_card', '\uff14111111111111111', '\uff14111111111111111'],
  ['us_ssn', 'SSN 123-45-6789.', '123-45-6789'],
  // Models write the hyphen that does not break a line, people a dash or a minus.
  ['us_ssn', 'SSN 123\u201145\u20116789.', '123\u201145\u20116789'],
  ['us_ssn', 'SSN 123\u201345\u20136789.', '123\u201345\u20136789'],
  ['us_ssn', 'SSN 123\u221245-6789.', '123\u221245-6789'],
  ['credit_card', '4111\u20111111\u20111111\u20111111', '4111\u20111111\u20111111\u20111111'],
  ['iban', 'to DE89 3704 0044 0532 0130 00 NOW', 'DE89 3704 0044 0532 0130 00'],
  ['iban', 'GB82WEST12345698765432', 'GB82WEST12345698765432'],
  ['iban', 'to de89370400440532013000 now', 'de89370400440532013000'],
  ['iban', 'De89-3704-0044-0532-0130-00', 'De89-3704-0044-0532-0130-00'],
  ['iban', 'in CH12 GB82 WEST 1234 5698 7654 32', 'GB82 WEST 1234 5698 7654 32'],
  ['api_key', `key=sk-${'a1'.repeat(12)}.`, `sk-${'a1'.repeat(12)}`],
  ['api_key', `AKIA${'A1'.repeat(8)}`, `AKIA${'A1'.repeat(8)}`],
  ['jwt', 'eyJhbGciOiJI.eyJzdWIiOiIx.sig-x!', 'eyJhbGciOiJI.eyJzdWIiOiIx.sig-x'],
  [
    'private_key',
    'a -----BEGIN RSA PRIVATE KEY-----\\nMIIE+/=\\n-----END RSA PRIVATE KEY----- b',
    '-----BEGIN RSA PRIVATE KEY-----\\nMIIE+/=\\n-----END RSA PRIVATE KEY-----',
  ],
])('%s finds what it is for in "%s"', (pattern, text, expected) => {
  expect(found(text, pattern)).toEqual([expected]);
});

test.each([
  ['email', 'a@b, @handle, x@localhost, 5 @ 3.50'],
  ['credit_card', '4111 1111 1111 1112, 2026-11-28 12:00:00, 41111111111111111111111111'],
  ['credit_card', '0000 0000 0000 0000'],
  ['us_ssn', '000-12-3456 666-12-3456 912-12-3456 123-00-4567 123-45-0000 1123-45-6789 123456789'],
  ['iban', 'DE89 3704 0044 0532 0130 01, AB12 CDEF GHIJ KLMN OPQR'],
  ['iban', 'be12 or not be12, de89 3704 0044  0532 0130 00, xde89370400440532013000'],
  ['api_key', 'sk-short, task-abcdefghijklmnopqrstuvwxyz, AKIA123'],
  ['jwt', 'eyJ.eyJ, keyJabcdefghij.eyJabcdefghij'],
  ['private_key', '-----BEGIN PUBLIC KEY-----'],
])('%s finds nothing in "%s"', (pattern, text) => {
  expect(found(text, pattern)).toEqual([]);
});
