interface Rule {
  /** True for a platform admin. */
  is_platform: boolean;
  /** As the settings of the organization say; undefined: they are not known, or not read. */
  manual_credit: 'allowed' | 'platform_only' | undefined;
}

/** True if a person may put new money into the organization's wallet: what is unknown is not. */
export function mayCredit({ is_platform, manual_credit }: Rule): boolean {
  return is_platform || manual_credit === 'allowed';
}

/** True if an approval of this person moves money of the organization and makes none. */
export function isMovedOnly({ is_platform, manual_credit }: Rule): boolean {
  return !is_platform && manual_credit === 'platform_only';
}
