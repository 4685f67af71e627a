type Kind<E extends Error> = abstract new (...args: never[]) => E;

/** A handler that answers errors of `kind` alone: every other is thrown on. */
export function onlyOf<E extends Error, U>(kind: Kind<E>, otherwise: (error: E) => U): (error: unknown) => U {
  return (error) => {
    if (!(error instanceof kind)) throw error;
    return otherwise(error);
  };
}

/** What `work` gives; where it throws an error of `kind`, what `otherwise` makes of that. */
export function caught<T, E extends Error, U>(work: () => T, kind: Kind<E>, otherwise: (error: E) => U): T | U {
  try {
    return work();
  } catch (error) {
    return onlyOf(kind, otherwise)(error);
  }
}

/** For an error that is answered with nothing. */
export function nothing(): undefined {
  return undefined;
}
