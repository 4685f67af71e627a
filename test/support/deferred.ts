/** A promise that the test resolves. */
export interface Deferred {
  promise: Promise<void>;
  resolve: () => void;
}

export function deferred(): Deferred {
  let resolve: () => void = ignore;
  const promise = new Promise<void>((resolvePromise) => {
    resolve = resolvePromise;
  });
  return { promise, resolve: () => resolve() };
}

/** The same promise, whose rejection the test looks at later, or never. */
export function lookedAtLater<T>(work: Promise<T>): Promise<T> {
  work.catch(ignore);
  return work;
}

function ignore(): void {
  // Nothing is to be done.
}
