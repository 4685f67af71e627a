/**
 * Judges a mutated store, as a process of its own: some damage to a table ends the process that reads it.
 *
 * Each message names two copies of the store and what had been promised. The answer is first what `poste relay log
 * verify` says of the one, and then what a relay that starts on the other does: refuse it, or serve. Of a relay that
 * serves it is asked whether everything is there that was promised; where it is not, something must say so, and after
 * the new epoch that follows, with everything pushed again as senders do, it must be there.
 */
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { refusedIfDamaged, StoreRefused } from '../../../../src/relay/store/refused.ts';
import { resultOf } from '../../../support/audits.ts';
import type { Promises } from '../../../support/mutated-store.ts';
import { type Start, startOn } from '../../../support/served-promises.ts';

export interface ToJudge {
  audited: string;
  started: string;
  promises: Promises;
}

/** An audit says this of the stopped store. */
export type Audit = { type: 'refused' | 'found' | 'sound'; said: string };

export type Judged = { type: 'audit'; audit: Audit } | { type: 'start'; start: Start };

process.on('message', (task: ToJudge) => void judge(task));

async function judge({ audited, started, promises }: ToJudge): Promise<void> {
  say({ type: 'audit', audit: await audit(audited) });
  say({ type: 'start', start: await startOn(started, promises) });
}

function say(judged: Judged): void {
  process.send?.(judged);
}

async function audit(folder: string): Promise<Audit> {
  try {
    const offline = await openOffline(folder, { isChecked: true });
    try {
      const { found, findings } = await resultOf(verify(offline, { places: { folder, positionFile: undefined } }));
      return { type: found > 0 ? 'found' : 'sound', said: findings.map(({ code }) => code).join(' ') };
    } finally {
      await offline.close();
    }
  } catch (error) {
    const refused = refusedIfDamaged(error, folder);
    if (refused instanceof StoreRefused) return { type: 'refused', said: refused.message };
    throw error;
  }
}
