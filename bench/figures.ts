/** Turns timings into the figures that are printed. */

export interface Timing {
  /** Wall seconds of the whole run. */
  seconds: number;
  /** Milliseconds of each request. */
  latenciesMs: number[];
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

export function latencies({ latenciesMs }: Timing): string {
  return `p50 ${quantile(latenciesMs, 0.5).toFixed(1)} ms, p99 ${quantile(latenciesMs, 0.99).toFixed(1)} ms`;
}

/** Calls `run` for every job of every lane: lanes side by side, jobs one after another. */
export async function timed<J>(
  lanes: readonly (readonly J[])[],
  run: (job: J, lane: number) => Promise<void>,
): Promise<Timing> {
  const latenciesMs: number[] = [];
  const started = performance.now();
  await Promise.all(
    lanes.map(async (jobs, lane) => {
      for (const job of jobs) {
        const before = performance.now();
        await run(job, lane);
        latenciesMs.push(performance.now() - before);
      }
    }),
  );
  return { seconds: (performance.now() - started) / 1000, latenciesMs };
}
