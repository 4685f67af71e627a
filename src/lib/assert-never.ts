/** Ends a switch over a closed union: a missing case does not compile. Pure, because the cores import it. */
export function assertNever(value: never): never {
  throw new Error(`invariant: unexpected ${JSON.stringify(value)}`);
}
