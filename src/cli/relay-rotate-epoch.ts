/** `poste relay rotate-epoch`: tells every host that the store is not the one it was. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { EPOCH_RANDOM_BYTES, type Epoch, epochFromRandom } from '../protocol/epoch.ts';
import { processClock, processRandom } from '../relay/ambient-process.ts';
import type { EpochDocument } from '../relay/control/documents.ts';
import { LEVEL_FOLDER } from '../relay/store/level.ts';
import { appendAtOnce, openStore } from '../relay/store/open.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { finishSwaps } from '../relay/store/unfinished-swaps.ts';
import { deployKey, keyFileOption } from './deploy-key.ts';
import { CommandFailed } from './exit.ts';
import { type StoreDirFlags, relayOf, storeDirOption } from './store-dir.ts';
import { storeRefused } from './store-refused.ts';
import { jsonLine } from './text.ts';

interface RotateEpochFlags extends StoreDirFlags {
  positionFile?: string;
  keyFile?: string;
  json?: boolean;
}

const NOTES = `
Give it after the store came back by other means than poste relay restore (a snapshot of the volume, a copy of the
files), before the relay serves again: hosts then take nothing for known, and senders push again what was not confirmed.
On a running relay it takes effect at once. relay.key or MAIL_RELAY_KEY must be that of the store.

Examples:
  $ poste relay rotate-epoch --store-dir /var/lib/poste
  $ poste relay rotate-epoch --store-dir /var/lib/poste --json`;

export function relayRotateEpochCommand(): Command {
  return new Command('rotate-epoch')
    .description('Begin a new epoch, after a restore by other means.')
    .addOption(storeDirOption())
    .addOption(keyFileOption())
    .option('--position-file <file>', 'as relay serve has it (default: position in the store folder)')
    .option('--json', 'print the epoch as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: RotateEpochFlags) => rotateEpoch(flags));
}

async function rotateEpoch(flags: RotateEpochFlags): Promise<void> {
  const document = (await ofRunning(flags)) ?? (await ofStopped(flags));
  process.stdout.write(flags.json ? jsonLine(document) : `${document.epoch}\n`);
  if (!flags.json) process.stderr.write('That is the epoch from now on; senders push again what was not confirmed.\n');
}

/** `undefined` when no relay answers. */
async function ofRunning(flags: RotateEpochFlags): Promise<EpochDocument | undefined> {
  try {
    return (await relayOf(flags).post('/v1/epoch', {})) as unknown as EpochDocument;
  } catch (error) {
    // One that runs all the same holds its lock.
    const { code } = error as CommandFailed;
    if (code !== 'RELAY_NOT_RUNNING' && code !== 'SOCKET_PATH_TOO_LONG') throw error;
    return undefined;
  }
}

function newEpoch(): Epoch {
  return epochFromRandom(processRandom(EPOCH_RANDOM_BYTES));
}

async function ofStopped({ storeDir, positionFile, keyFile }: RotateEpochFlags): Promise<EpochDocument> {
  const folder = resolve(storeDir);
  const nowMs = processClock.nowMs();
  try {
    const key = await deployKey(keyFile);
    await finishSwaps(folder, { positionFile: positionFile === undefined ? undefined : resolve(positionFile) });
    // Opening would begin an empty one.
    if (!existsSync(join(folder, LEVEL_FOLDER))) {
      throw new StoreRefused('missing', `there is no store at ${folder}: name its folder with --store-dir`);
    }
    const { store, notices } = await openStore({
      folder,
      ...(positionFile !== undefined && { positionFile: resolve(positionFile) }),
      ...(key && { signer: key.signer }),
      nowMs,
      newEpoch,
    });
    try {
      for (const notice of notices) process.stderr.write(`${notice}\n`);
      const epoch = newEpoch();
      await appendAtOnce(store, { type: 'EpochRotated', epoch, reason: 'reset', atMs: nowMs }, nowMs);
      return { epoch };
    } finally {
      await store.close();
    }
  } catch (error) {
    throw error instanceof StoreRefused ? storeRefused(error) : error;
  }
}
