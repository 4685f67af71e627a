/** Everything that an async iteration yields, in an array (`Array.fromAsync` needs Node 22). */
export async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
