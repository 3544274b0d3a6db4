export type Role = 'owner' | 'admin' | 'billing_admin' | 'member';

export const permissions = [
  'org:billing',
  'agents:read',
  'agents:write',
  'tokens:write',
  'org:members',
  'events:read',
  'platform:admin',
  'control_plane',
] as const;
export type Permission = (typeof permissions)[number];

/** Scopes that belong to the platform: no organization's key carries them. */
export const platformPermissions: readonly Permission[] = ['platform:admin', 'control_plane'];

/**
 * The permissions of each role. A key made for a person never has more, also when the role shrinks
 * later.
 */
export const rolePermissions: Record<Role, readonly Permission[]> = {
  owner: permissions.filter((scope) => !platformPermissions.includes(scope)),
  admin: ['agents:read', 'agents:write', 'tokens:write', 'org:members', 'events:read'],
  billing_admin: ['org:billing'],
  member: [],
};
