/** `poste relay log rebuild`: makes everything but the log anew, from the log. */
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { systemClock } from '../../lib/clock.ts';
import { type Rebuilt, rebuild } from '../../relay/replay/rebuild.ts';
import { documentOf } from '../../relay/replay/records.ts';
import { LEVEL_FOLDER } from '../../relay/store/level.ts';
import { mendCurrentUnopened } from '../../relay/store/level-lock.ts';
import { inAuditedStore } from './audited-store.ts';
import { confirm, isInteractive, terminalOf } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { print } from '../lib/output.ts';
import { relayCommand, type RelayFlags } from './relay-command.ts';

interface RebuildFlags extends RelayFlags {
  yes?: boolean;
}

const NOTES = `
Rows, indexes and marks are made by a replay; the log and the wire bytes of waiting items are copied, and no sequence number
changes. The former database stays beside the new one until you delete it. The log must be whole: check it with poste relay
log verify. A CURRENT file that is lost or torn is made anew first, where the newest MANIFEST and all its tables are there.

Examples:
  $ poste relay log rebuild --store-dir /var/lib/poste --yes`;

export function relayLogRebuildCommand(context: CommandContext): Command {
  return relayCommand(context, 'rebuild')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', NOTES)
    .action(async (flags: RebuildFlags) => runRebuild(context, flags));
}

async function runRebuild(context: CommandContext, flags: RebuildFlags): Promise<void> {
  const folder = resolve(flags.storeDir);
  const manifest = await mendCurrentUnopened(join(folder, LEVEL_FOLDER));
  if (manifest !== undefined)
    context.stderr.write(`CURRENT was lost or torn, and names ${manifest} again, whose tables are all there.\n`);
  await inAuditedStore(context, flags, async (offline, work) => {
    if (!flags.yes) {
      const terminal = terminalOf(context);
      if (!isInteractive(terminal)) {
        throw new CommandFailed(
          'usage',
          'USAGE',
          'without a terminal Poste cannot ask for confirmation: give --yes to rebuild',
        );
      }
      await confirm(
        `Rebuild the store at ${printable(folder)} from ${countText(offline.store.lastLsn, 'log record')}?`,
        terminal,
      );
    }
    const rebuilt = await work.run(rebuild(offline, folder, systemClock));
    print(context, flags, rebuiltDocument(rebuilt), () => rebuiltText(rebuilt));
  });
}

function rebuiltDocument({ events, rows, payloads, lost, lostItems, replaced, replayMs }: Rebuilt): object {
  const named = lostItems.map(({ targetPubkey, seq, kind, itemId, senderPubkey }) => {
    return { targetPubkey, seq, kind, itemId, senderPubkey };
  });
  const eventsPerSecond = perSecond(events, replayMs);
  return documentOf({ events, rows, payloads, lost, lostItems: named, replaced, eventsPerSecond });
}

function rebuiltText({ events, rows, payloads, lost, lostItems, replaced, replayMs }: Rebuilt): string {
  const speed = `${perSecond(events, replayMs)} events/s`;
  const lines = lostItems.map(({ targetPubkey, seq, kind, itemId }) => {
    return `  ${kind} ${printable(itemId)} for ${displayFingerprint(targetPubkey)} at seq ${seq}\n`;
  });
  const more = lost > lostItems.length ? `  and ${lost - lostItems.length} more\n` : '';
  const losses =
    lost === 0
      ? ''
      : `Without wire bytes, so that the relay will report them lost when they are pulled (${lost}):\n${lines.join('')}${more}`;
  return `Rebuilt: ${countText(rows, 'row')} of ${countText(events, 'event')} (${speed}), ${countText(payloads, 'payload')} kept.\n${losses}The former database is ${printable(replaced)}: delete it when the relay runs well.\n`;
}

function perSecond(events: number, elapsedMs: number): number {
  return Math.round((events / Math.max(elapsedMs, 1)) * 1000);
}
