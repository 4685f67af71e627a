/** The same measured several times, one round after another. */

/** Answers the values of one figure in all rounds. */
export async function inRounds<K extends string>(
  rounds: number,
  measure: () => Promise<Record<K, number>>,
): Promise<(figure: K) => number[]> {
  const all: Record<K, number>[] = [];
  for (let round = 0; round < rounds; round++) all.push(await measure());
  return (figure) => all.map((one) => one[figure]);
}
