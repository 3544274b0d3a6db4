/**
 * The wallets of a ticket that an approval can hold its call in. The organization's own one is
 * filled by none that moves its money.
 */
export function fillable<W extends { owner_type: string; shortfall: number }>(
  wallets: readonly W[],
  is_moved_only: boolean,
): W[] {
  return wallets.filter(
    ({ owner_type, shortfall }) =>
      !is_moved_only || owner_type !== 'organization' || shortfall <= 0,
  );
}

/** Where the money of an approval comes from, and what becomes of it. */
export function sourceWords(
  to: string,
  { is_of_team, is_moved }: { is_of_team: boolean; is_moved: boolean },
): string {
  const rest = 'The call is paid from there, and what it does not use stays there.';
  if (is_of_team) return `It moves from your team's wallet to ${to}. ${rest}`;
  if (is_moved) return `It moves from the organization's wallet to ${to}. ${rest}`;
  return `It is credited by hand, as new money in ${to}. ${rest}`;
}
