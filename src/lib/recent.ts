/** Keeps a value as the newest of at most `max`: the one that was kept longest ago goes. */
export function keepRecent<K, V>(kept: Map<K, V>, key: K, value: V, max: number): void {
  kept.delete(key);
  kept.set(key, value);
  if (kept.size <= max) return;
  const oldest = kept.keys().next();
  if (!oldest.done) kept.delete(oldest.value);
}
