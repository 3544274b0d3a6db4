/**
 * The most places that one of several may take where others hold so many: half of what they leave.
 * Whoever comes next finds as many as any before it has, and none is left without a place by a few
 * that take all they can. One that has more already keeps them.
 */
export function fairShare(places: number, held_by_others: number): number {
  return Math.ceil(Math.max(0, places - held_by_others) / 2);
}
