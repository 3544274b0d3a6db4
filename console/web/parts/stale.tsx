import type { ReactNode } from 'react';

/** What was read for other filters than those that stand above it: dimmed, until theirs is read. */
export function Stale({ is_stale, children }: { is_stale: boolean; children: ReactNode }) {
  return (
    <div className={is_stale ? 'stale' : undefined} aria-busy={is_stale}>
      {is_stale && (
        <div className="stale-words" role="status" aria-label="Loading">
          Reading what you asked for…
        </div>
      )}
      <div className="stale-part">{children}</div>
    </div>
  );
}
