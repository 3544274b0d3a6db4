import { Badge } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { decidesTickets, type Me } from '../session/me';

/** What the inbox counts: all that one decides, or one's own. */
export function openTickets(me: Me) {
  const whose = decidesTickets(me)
    ? ({ approvable: 'true' } as const)
    : ({ mine: 'true' } as const);
  return reading('GET /api/tickets', { query: { status: 'open', per_page: 1, ...whose } });
}

/** How many tickets are open, on every page. */
export function OpenTickets({ me }: { me: Me }) {
  const { data } = useQuery({ ...openTickets(me), refetchInterval: 60_000 });
  const count = data !== undefined && 'total' in data ? data.total : 0;
  if (count === 0) return null;
  return (
    <Badge circle={count < 10} color="red.9" variant="filled" aria-label={`${count} open tickets`}>
      {count > 99 ? '99+' : count}
    </Badge>
  );
}
