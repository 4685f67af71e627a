/** Audits to their end. */
import { type Rebuilt, rebuild } from '../../src/relay/replay/rebuild.ts';
import type { VerifyReport } from '../../src/relay/replay/verification.ts';
import { type VerifyOptions, verify } from '../../src/relay/replay/verify.ts';
import { openOffline } from '../../src/relay/replay/offline.ts';
import { NOON_MS } from './test-clock.ts';

/** Returns what a generator of progress comes to. */
export async function resultOf<T>(work: AsyncGenerator<unknown, T>): Promise<T> {
  let step = await work.next();
  while (!step.done) step = await work.next();
  return step.value;
}

/** Verifies the closed store in `folder`. */
export async function verified(folder: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  const offline = await openOffline(folder, { isChecked: true });
  try {
    return await resultOf(verify(offline, { places: { folder, positionFile: undefined }, ...options }));
  } finally {
    await offline.close();
  }
}

/** Rebuilds the closed store in `folder`, with a clock that stands still. */
export async function rebuilt(folder: string, helped: Parameters<typeof rebuild>[3] = {}): Promise<Rebuilt> {
  const offline = await openOffline(folder);
  try {
    return await resultOf(rebuild(offline, folder, { nowMs: () => NOON_MS, monotonicMs: () => 0 }, helped));
  } finally {
    await offline.close();
  }
}
