/** The words of calls and of what they cost. */
export const spendHelp: Record<string, string> = {
  session_id: 'A name that the calls of one session share; its limits count them together.',
  request_id:
    'A random id of this call. The same id again is the same call: it holds and settles once.',
  tags: "What the call is for, in its caller's words: x-svc-tags. Spend is counted by them.",
  days: 'How many days back, from now.',
};
