/**
 * `poste backup <file>`: writes everything this host holds into one file, whether its daemon runs or not. `poste
 * restore <file>` replaces the store of this host by a backup. Rotated keys and ended pairings stay so.
 */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { CallFailed, DaemonClient } from '../../host/api/client.ts';
import { loadIdentity } from '../../host/peers/identity.ts';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import { HOST_BACKUP, type WrittenHostBackup, writeHostBackup } from '../../host/store/backup.ts';
import { openHostStore } from '../../host/store/open.ts';
import { finishRestore } from '../../host/store/restored.ts';
import { backupPath, writeImageTo } from '../lib/backup-output.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { atWork, print } from '../lib/output.ts';
import { formatBytes, formatFields, JSON_FLAG, formatLines } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { countText } from '../../host/core/spans.ts';
import {
  rehearseRestore,
  type RestoreRehearsal,
  type RestoreFault,
  type RestorePlan,
  RestoreRefused,
  type RestoreReport,
  restoreHost,
} from '../../host/restore.ts';
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { confirmation, requireReadable } from '../lib/input.ts';
import { CommandFailed, type ExitName } from '../lib/exit.ts';

const NOTES = `
You need not stop the daemon: the backup holds everything that was stored up to one moment. Poste writes it beside
<file>, checks it while it writes, and renames it when it is complete and on disk. Only you can read it. It holds the
private keys of this host and every message in plain text: protect it as you protect a key.

Examples:
  $ poste backup poste.backup
  $ poste backup /backups/poste-$(date +%F).backup
  $ poste backup - | gpg --encrypt --recipient me > poste.backup.gpg`;

export function backupCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'backup')
    .argument('<file>', 'the file to write; - for standard output')
    .option('--force', 'replace an existing file')
    .option(...JSON_FLAG)
    .notes(NOTES)
    .action(async (file, flags) => {
      const path = backupPath(context, file);
      const stdout = path === null ? context.stderr : context.stdout;
      try {
        const made = await atWork(context, (work) => {
          const to = { path, force: flags.force, work };
          return writeImageTo(context, chunksOf(context, work.signal), HOST_BACKUP, to);
        });
        const { header, bytes, contentBytes: content_bytes, messages, sha256 } = made;
        const { host, host_pubkey, created_at } = header;
        const document = { file: path, bytes, content_bytes, messages, sha256, created_at, host, host_pubkey };
        print({ stdout }, flags, document, () => textOf(screenOf(context, stdout), made, path));
      } catch (error) {
        throw hostFailure(error);
      }
    });
}

/** The backup comes from the daemon if it runs, or else from its store. */
async function* chunksOf(context: CommandContext, signal: AbortSignal): AsyncGenerator<Buffer> {
  const paths = ownPaths(context);
  let isRunning = false;
  if (daemonSocketFault(paths) === undefined) {
    try {
      for await (const chunk of new DaemonClient(paths.socket, paths.store).backup(signal)) {
        isRunning = true;
        yield chunk;
      }
      return;
    } catch (error) {
      // A process that runs but does not answer holds the lock of the store.
      if (isRunning || !(error instanceof CallFailed) || error.code !== 'DAEMON_NOT_RUNNING') throw error;
    }
  }
  await finishRestore(paths.store);
  const store = await openHostStore(paths.store, () => undefined);
  try {
    const { hostName: host, signer } = await loadIdentity(store);
    const stamp = { host, host_pubkey: signer.publicKey, created_at: Date.now(), version: softwareVersion() };
    for await (const chunk of writeHostBackup(store, stamp)) {
      signal.throwIfAborted();
      yield chunk;
    }
  } finally {
    await store.close();
  }
}

function textOf(screen: Screen, { header, bytes, messages, sha256 }: WrittenHostBackup, path: string | null): string {
  const rows = [
    ['file', path ?? 'standard output'],
    ['size', formatBytes(bytes)],
    ['host', header.host],
    ['taken', formatMoment(screen, header.created_at)],
    ['messages', String(messages)],
    ['sha256', sha256],
  ];
  return `The backup is complete.\n${formatFields(rows, 8)}`;
}

const RESTORE_NOTES = `
Stop the daemon first. Poste checks the whole backup before it replaces anything, and keeps the former store aside. It
takes keys and pairings from the former store, so that an old key or an unpaired host does not come back. Mail that
waited to be sent is sent again under its old id, and no host accepts it twice. Mail that was received or sent after the
backup is not in it: Poste shows how much that is before it asks, and mails it to owner. A dry run works on copies in
the folder for temporary files (TMPDIR), also while a daemon runs.

Examples:
  $ poste restore poste.backup --dry-run
  $ poste restore poste.backup
  $ poste restore poste.backup --yes --json`;

export function restoreCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'restore')
    .argument('<file>', 'a file that poste backup wrote')
    .option('--dry-run', 'show what would be replaced and lost, and change nothing', { conflicts: ['yes'] })
    .option('--force', 'replace the store even if it cannot be read or belongs to another host')
    .option('--yes', 'do not ask for confirmation')
    .option(...JSON_FLAG)
    .notes(RESTORE_NOTES)
    .action(async (file, flags) => {
      const options = { file: resolve(file), paths: ownPaths(context), force: flags.force === true };
      requireReadable(options.file);
      try {
        if (flags.dryRun) {
          const rehearsed = await atWork(context, ({ signal }) => rehearseRestore({ ...options, signal }));
          const plan = { daemon_runs: rehearsed.isDaemonRunning, ...planDocument(rehearsed) };
          const document = { dry_run: true, ...plan, receipt_floor: null, kept_aside: null };
          return print(context, flags, document, () => rehearsedText(screenOf(context), rehearsed));
        }
        const stake = { stake: 'a restore replaces the store', advice: ', or try --dry-run first' };
        const ask = confirmation(context, { yes: flags.yes, ...stake });
        const report = await restoreHost({
          ...options,
          nowMs: context.nowMs(),
          confirm: (plan) => {
            return ask('Replace the store now?', `The backup ${planText(screenOf(context, context.stderr), plan)}`);
          },
        });
        const { receiptFloor: receipt_floor, keptAside: kept_aside } = report;
        const document = { dry_run: false, ...planDocument(report), receipt_floor, kept_aside };
        return print(context, flags, document, () => restoredText(screenOf(context), report));
      } catch (error) {
        if (!(error instanceof RestoreRefused)) throw hostFailure(error);
        const code = `RESTORE_${error.fault.toUpperCase().replaceAll('-', '_')}`;
        throw new CommandFailed(EXIT_OF[error.fault], code, error.message);
      }
    });
}

const EXIT_OF: Readonly<Record<RestoreFault, ExitName>> = {
  file: 'notFound',
  damaged: 'failure',
  newer: 'failure',
  running: 'conflict',
  'other-host': 'conflict',
  unreadable: 'failure',
};

function planDocument({ backup, holds, replaced }: RestorePlan): object {
  const { messages, agents, peers, waiting } = holds;
  return {
    backup,
    messages,
    agents,
    peers,
    waiting,
    replaced: replaced && {
      readable: replaced.isReadable,
      same_host: replaced.isSameHost,
      messages_since: replaced.messagesSince,
      outgoing_since: replaced.outgoingSince,
      agents_since: replaced.agentsSince,
    },
  };
}

function restoredText(screen: Screen, report: RestoreReport): string {
  const kept = report.keptAside === null ? [] : [`the former store is kept as ${report.keptAside}`];
  return `Restored the backup ${planText(screen, report)}${formatLines(kept, '  ')}`;
}

function rehearsedText(screen: Screen, rehearsed: RestoreRehearsal): string {
  const first = rehearsed.isDaemonRunning ? '  a daemon uses the store: stop it before you restore\n' : '';
  return `A restore would bring back the backup ${planText(screen, rehearsed)}${first}Nothing was changed.\n`;
}

/** After the word backup. */
function planText(screen: Screen, { backup, holds, replaced }: RestorePlan): string {
  const key = parsePublicKey(backup.host_pubkey);
  const counts = [
    countText(holds.messages, 'message'),
    countText(holds.agents, 'agent'),
    countText(holds.peers, 'paired host'),
  ];
  const waiting = holds.waiting === 0 ? '' : `; ${countText(holds.waiting, 'message')} in it will be sent again`;
  const lines = [
    `of host ${backup.host}, ${key ? displayFingerprint(key) : backup.host_pubkey}`,
    `written by Poste ${backup.version}, schema ${backup.schema_version}`,
    `holds ${counts.join(', ')}${waiting}`,
    ...replacedLines(replaced),
  ];
  return `of ${formatMoment(screen, backup.created_at)}\n${formatLines(lines, '  ')}`;
}

function replacedLines(replaced: RestorePlan['replaced']): string[] {
  if (!replaced) return ['there is no former store, so keys and pairings are those of the backup'];
  if (!replaced.isReadable) return ['the present store cannot be read: nothing is kept from it'];
  const { isSameHost, messagesSince: messages, outgoingSince: outgoing, agentsSince: agents } = replaced;
  const going = outgoing === 0 ? '' : `; ${outgoing} of them ${outgoing === 1 ? 'waits' : 'wait'} for another host`;
  return [
    isSameHost
      ? 'keys and pairings are kept from the present store'
      : 'the present store belongs to another host: nothing is kept from it',
    messages === 0
      ? 'no message of the present store is missing in the backup'
      : `${countText(messages, 'message')} of the present store ` +
        `${messages === 1 ? 'is' : 'are'} not in the backup${going}`,
    ...(agents.length === 0
      ? []
      : [`not in the backup: the ${agents.length === 1 ? 'agent' : 'agents'} ${agents.join(', ')}`]),
  ];
}
