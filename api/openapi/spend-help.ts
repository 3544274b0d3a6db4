/** The words of spend. */
export const spendHelp: Record<string, string> = {
  tags: "What the call is for, in its caller's words: x-svc-tags. Spend is counted by them.",
};
