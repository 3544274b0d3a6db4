import { z } from 'zod';
import { orgShare } from './shares';

const milliseconds = z.int().min(1).max(86_400_000);

/** The section `sockets`. */
export const socketSettings = z.strictObject({
  connections_max: z.int().min(0).max(100_000).default(2_000),
  connections_per_org_max: orgShare,
  connections_per_key_max: z.int().min(0).max(100_000).default(100),
  /** How many lanes of one connection answer at the same time. */
  lanes_max: z.int().min(1).max(1_000).default(16),
  /** How many frames of one connection wait behind others of their lanes. */
  waiting_max: z.int().min(0).max(10_000).default(64),
  /** A connection this old ends once its answers under way are complete; clients open another. */
  lifetime_ms: milliseconds.default(3_600_000),
  /**
   * A connection that has not answered a ping by the next one is cut; one with unread answers by
   * the fourth, unless it reads on.
   */
  ping_ms: milliseconds.default(25_000),
  /** Browsers name the page that calls; of no other page they are let in. */
  allowed_origins: z.array(z.string().min(1)).default([]),
});

export type SocketSettings = z.infer<typeof socketSettings>;
