/** The group of gateways that name none. */
export const DEFAULT_GROUP = 'default';
/** What a group may be called, and that in words. */
export const group_pattern = /^[\w.-]{1,100}$/;
export const group_rule = 'may have letters, digits, and _ . - only, 100 at most';
