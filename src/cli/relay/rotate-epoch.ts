/** `poste relay rotate-epoch`: starts a new epoch, so that every host notices that the store was restored. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import type { Command } from 'commander';
import { systemClock } from '../../lib/clock.ts';
import type { EpochDocument } from '../../relay/operator/documents.ts';
import { LEVEL_FOLDER } from '../../relay/store/level.ts';
import { appendAtOnce, missingStore, openStore } from '../../relay/store/open.ts';
import { unusableStore } from '../../relay/store/refused.ts';
import { type SharedLog, copied } from '../../relay/shared-log/shared-log.ts';
import { finishCutovers } from '../../relay/store/cutover.ts';
import type { FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { ifRunning, relayOf } from './control-client.ts';
import { deployKey, newEpoch, relayCommand, withKeyOptions } from './relay-command.ts';
import { formatLines } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { withoutUndefined } from '../lib/values.ts';
import { withLogOptions, withSharedLog } from './shared-log-options.ts';

const NOTES = `
Run it after you restored the store by other means than poste relay restore (a snapshot of the volume, a copy of the
files), and before the relay serves again. Hosts pull from the beginning, and senders push again what was not
confirmed. On a running relay it takes effect at once. relay.key or MAIL_RELAY_KEY must be the key of the store.

With --log it works from any machine: it marks the log as in doubt, and the relay that leads, or the next one, begins
the new epoch.

Examples:
  $ poste relay rotate-epoch --store-dir /var/lib/poste
  $ poste relay rotate-epoch --log postgres://relay@db.example/mail --log-password-file log.password`;

export function rotateEpochCommand(context: CommandContext): Command {
  return draft(context)
    .notes(NOTES)
    .action(async (flags) => {
      if (flags.log !== undefined) return ofSharedLog(context, flags);
      const running = await ifRunning(relayOf(flags).post('/v1/epoch', {}));
      const document = running ?? (await ofStopped(context, flags));
      print(context, flags, document, () => `${document.epoch}\n`);
      const said = 'This is the epoch from now on. Senders push again what was not confirmed.\n';
      return flags.json || context.stderr.write(said);
    });
}

function draft(context: CommandContext) {
  return withKeyOptions(withLogOptions(context, relayCommand(context, 'rotate-epoch')));
}

type RotateEpochFlags = FlagsOf<typeof draft>;

/** A relay that leads begins the epoch with its next sign of life, which comes every two seconds. */
const BEGUN_WITHIN_MS = 15_000;
const LOOK_EVERY_MS = 100;
const WHY = 'somebody asked for a new epoch with poste relay rotate-epoch --log';

async function ofSharedLog(context: CommandContext, flags: RotateEpochFlags): Promise<void> {
  await withSharedLog(context, flags, async (log) => {
    const { state } = copied(await log.open());
    if (!state) throw new CommandFailed('notFound', 'NO_LOG', 'nobody has begun a log in this database');
    await log.doubt(state.logId, WHY);
    const leader = state.isFree ? null : state.holder;
    const begun = leader !== null && (await isSettled(log));
    const done = begun ? `${leader} has begun a new epoch.` : 'The next relay that leads the log begins a new epoch.';
    print(context, flags, { log_id: state.logId, leader, begun }, () => formatLines([done]));
  });
}

/** True when the relay that leads settled the doubt in time. */
async function isSettled(log: SharedLog): Promise<boolean> {
  for (const untilMs = performance.now() + BEGUN_WITHIN_MS; performance.now() < untilMs; ) {
    const { state } = await log.open();
    if (state?.doubt === undefined) return true;
    await elapsed(LOOK_EVERY_MS);
  }
  return false;
}

async function ofStopped(
  context: CommandContext,
  { storeDir, positionFile, keyFile }: RotateEpochFlags,
): Promise<EpochDocument> {
  const folder = resolve(storeDir);
  const nowMs = systemClock.nowMs();
  try {
    const key = await deployKey(context, keyFile);
    await finishCutovers(folder, { positionFile });
    // Opening would begin an empty one.
    if (!existsSync(join(folder, LEVEL_FOLDER))) throw missingStore(folder);
    const { store, notices } = await openStore({
      folder,
      ...withoutUndefined({ positionFile, signer: key?.signer }),
      nowMs,
      newEpoch,
    });
    try {
      context.stderr.write(formatLines(notices, 'poste: '));
      const epoch = newEpoch();
      await appendAtOnce(store, { type: 'EpochRotated', epoch, reason: 'reset', atMs: nowMs }, nowMs);
      return { epoch };
    } finally {
      await store.close();
    }
  } catch (error) {
    throw error instanceof CommandFailed ? error : unusableStore(error, folder);
  }
}
