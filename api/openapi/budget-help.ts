/** The meaning of the fields of budgets and approval rules. */
export const budgetHelp: Record<string, string> = {
  time_zone:
    'IANA name of the zone whose calendar windows of budgets follow; a change counts from the next window.',
  owner_type: 'Whose calls it counts, or whose wallet it is.',
  owner_id: 'The id of that key, user or team; of the organization it may be left out.',
  window:
    'The calendar window that it counts, in the time zone of the organization; life never ends.',
  budget_window:
    'The window of max_budget: hour, day, week or month; without it, or life, the key in its life.',
  on_exceed:
    'refuse: 403. ticket: the call waits on a cost ticket, whose approval raises the budget once.',
  thresholds: 'Percents of the limit, 1 to 100, that are told once a window as budget.threshold.',
  threshold_pct: 'The highest threshold that was reached, in percent.',
  max_per_call: 'The most that a call may hold to be approved by the rule.',
  max_per_day: 'The most that the rule approves in a day of the time zone of the organization.',
  source: 'Whose wallet pays what is missing: the one of the team, or of the organization.',
  mine: "true: only the caller's own.",
  cause: 'budget: a budget has no room. balance: only money is missing.',
  verdict: 'approve or deny.',
  responses: 'How many answers it was.',
  every: 'How long its windows are.',
  lag_minutes: 'Each window is exported so long after its end.',
  ticket_ids: 'Ids of cost tickets, 50 at most.',
  from_wallet_id:
    "Move what is missing from this wallet, the organization's or the one of the team of the ticket; absent, it is credited.",
};
