type Kind<E extends Error> = abstract new (...args: never[]) => E;

/** A handler that answers errors of `kind` alone: every other is thrown on. */
export function onlyOf<E extends Error, U>(kind: Kind<E>, otherwise: (error: E) => U): (error: unknown) => U {
  return (error) => {
    if (!(error instanceof kind)) throw error;
    return otherwise(error);
  };
}

/** Returns the result of `work` or, where it throws an error of `kind`, that of `otherwise`. */
export function caught<T, E extends Error, U>(work: () => T, kind: Kind<E>, otherwise: (error: E) => U): T | U {
  try {
    return work();
  } catch (error) {
    return onlyOf(kind, otherwise)(error);
  }
}

/** Returns the result of `work`; `undefined` when it throws, whatever that is. */
export function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/** A handler that answers an error with nothing. */
export function nothing(): undefined {
  return undefined;
}
