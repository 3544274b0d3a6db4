/** The person's locale, as far as the browser names one that is known: some name none. */
export const locale: string = navigator.languages.find(isKnown) ?? 'en';

/** What begins the decimals of a number in it. */
export const decimal_mark = new Intl.NumberFormat(locale).format(1.5).includes(',') ? ',' : '.';

function isKnown(name: string): boolean {
  try {
    return Intl.NumberFormat.supportedLocalesOf(name).length > 0;
  } catch {
    return false;
  }
}
