/** Long work that others must not feel: it rests after each step as its share of the time asks for. */
export interface Pace {
  /** The part of the time that the work may take: 0.02 is two hundredths of one processor. */
  share: number;
  monotonicMs: () => number;
  /** Rests for so long. False when nobody wants the rest of the work. */
  rest: (ms: number) => boolean | Promise<boolean>;
}

/** Does the work to its end, and says how long that took without the rests; `undefined` when it was left. */
export async function paceWork<P, T>(
  steps: AsyncGenerator<P, T, void>,
  { share, monotonicMs, rest }: Pace,
  onStep: (step: P) => void = () => undefined,
): Promise<{ result: T; busyMs: number } | undefined> {
  let busyMs = 0;
  try {
    for (;;) {
      const startedMs = monotonicMs();
      const step = await steps.next();
      const tookMs = monotonicMs() - startedMs;
      busyMs += tookMs;
      if (step.done) return { result: step.value, busyMs };
      onStep(step.value);
      if (!(await rest(tookMs * (1 / share - 1)))) return undefined;
    }
  } finally {
    await steps.return(undefined as never);
  }
}
