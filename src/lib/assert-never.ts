/** Ends a switch over a closed union: the compiler refuses a case that is missing. Pure: the cores import it. */
export function assertNever(value: never): never {
  throw new Error(`invariant: unexpected ${JSON.stringify(value)}`);
}
