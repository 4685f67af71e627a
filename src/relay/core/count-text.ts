/** A count as text for people, as host/core/spans.ts has it for the host side: the halves share only the protocol. */

/** `1 item`, `2 items`; `many` where that is no `s`. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
