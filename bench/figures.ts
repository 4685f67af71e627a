/** Times requests: as fast as they are answered, or so many a second; and measures by turns. */

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

/**
 * Calls `run` for so many jobs a second, on whichever lane is free. What waits for a lane has been late since it was
 * due, so its time counts from then.
 */
export async function paced<J>(
  jobs: readonly J[],
  { lanes, perSecond }: { lanes: number; perSecond: number },
  run: (job: J, lane: number) => Promise<void>,
): Promise<Timing> {
  const latenciesMs: number[] = [];
  const free = Array.from({ length: lanes }, (_none, lane) => lane);
  const started = performance.now();
  const dueMs = (at: number): number => started + (at * 1000) / perSecond;
  const running = new Set<Promise<void>>();
  let begun = 0;
  const failures: unknown[] = [];
  while (begun < jobs.length && failures.length === 0) {
    while (begun < jobs.length && free.length > 0 && dueMs(begun) <= performance.now()) {
      const at = begun++;
      // The one that has been free the longest: a server ends a connection on which nothing comes.
      const lane = free.shift() ?? 0;
      const done: Promise<void> = run(jobs[at]!, lane)
        .then(() => {
          latenciesMs.push(performance.now() - dueMs(at));
          free.push(lane);
        })
        .catch((error: unknown) => void failures.push(error))
        .finally(() => running.delete(done));
      running.add(done);
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
  return { seconds: (performance.now() - started) / 1000, latenciesMs };
}

/**
 * Measures each in each round, the first one another each time: what the machine does beside falls on all of them.
 * Answers what each round gave, by name.
 */
export async function byTurns<K extends string, T>(
  rounds: number,
  names: readonly K[],
  measure: (name: K) => Promise<T>,
): Promise<Map<K, T[]>> {
  const all = new Map(names.map((name): [K, T[]] => [name, []]));
  for (let round = 0; round < rounds; round++)
    for (const at of names.keys()) {
      const name = names[(at + round) % names.length]!;
      all.get(name)?.push(await measure(name));
    }
  return all;
}
