/** The person's locale, as far as the browser names one that is known: some name none. */
export const locale: string = navigator.languages.find(isKnown) ?? 'en';

function isKnown(name: string): boolean {
  try {
    return Intl.NumberFormat.supportedLocalesOf(name).length > 0;
  } catch {
    return false;
  }
}
