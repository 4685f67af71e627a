/**
 * What whoever opens a store folder does first: a restore or a rebuild that was interrupted when it had happened already
 * is carried out to its end, since until then the folder may hold no database, or the one that was replaced.
 */
import { finishRebuild } from './rebuild-swap.ts';
import { StoreRefused } from './refused.ts';
import { type FinishOptions, finishSwap } from './restore-swap.ts';

/** Does nothing where nothing was interrupted. Throws `StoreRefused`. */
export async function finishSwaps(folder: string, options: FinishOptions = {}): Promise<void> {
  try {
    await finishSwap(folder, options);
    await finishRebuild(folder);
  } catch (error) {
    const { code, errno } = error as NodeJS.ErrnoException;
    if (typeof code !== 'string' || typeof errno !== 'number') throw error;
    throw new StoreRefused(
      'unusable',
      `what was interrupted in ${folder} cannot be finished (${code}): mend that, and give the command again`,
    );
  }
}
