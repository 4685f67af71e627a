/** `poste relay log verify`: whether a store is what its log says. */
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { verifyArchive } from '../../relay/replay/verify-tree.ts';
import { type VerifyReport, verify } from '../../relay/replay/verify.ts';
import { type AuditedStoreFlags, inAuditedStore, withAuditedLog } from './audited-store.ts';
import { relayCommand } from './relay-command.ts';
import type { CommandContext } from '../lib/context.ts';
import { EXIT } from '../lib/exit.ts';
import { withProgress } from '../lib/output.ts';
import { jsonLine } from '../lib/format.ts';
import { verifyOnline } from './log-verify-online.ts';
import { documentOf } from '../../relay/replay/records.ts';

interface VerifyFlags extends AuditedStoreFlags {
  positionFile?: string;
  online?: boolean;
  cpuPercent: number;
}

const NOTES = `
It checks every log record (checksum, no gap); every row, every checkpoint of the rows and the hash trees against a replay of
the log; the wire bytes of every waiting item against the hash that was accepted; the due indexes, the marks of the collector,
the position file and the key. A pruned log is replayed from its oldest checkpoint, and the kept hashes stand in for the
deleted records. In an archive it checks every record and its hash in the tree. Compare tree_size and root_hash of the JSON
document with a checkpoint of that size that you kept. Nothing is changed. The exit code is 0 when everything holds, and 1
when anything was found.

With --online the relay goes on: once a day, and when it is asked, it replays its log from the newest checkpoint of the rows
against its rows, in a thread that takes the given part of one processor. It leaves out hash trees, older records and wire
bytes, which this command checks without --online. What differs is also told to the operator as damage, and a new epoch
begins, so that every host looks at what it has. A relay that follows a shared log begins none; it does not take the lead then.

Examples:
  $ poste relay log verify --store-dir /var/lib/poste
  $ poste relay log verify --online --store-dir /var/lib/poste
  $ poste relay log verify --backup poste.backup --json
  $ poste relay log verify --archive poste-log.archive`;

export function relayLogVerifyCommand(context: CommandContext): Command {
  return withAuditedLog(relayCommand(context, 'verify'))
    .addOption(
      new Option(
        '--position-file <file>',
        'where the relay notes its position (default: the file that it chose)',
      ).conflicts(['backup', 'archive']),
    )
    .addOption(
      new Option('--online', 'ask the relay that runs on the store whether its rows are what its log gives').conflicts([
        'backup',
        'archive',
      ]),
    )
    .addOption(
      new Option('--cpu-percent <n>', 'with --online: what of one processor the relay may use for it, 1 to 100')
        .argParser(wholePercent)
        .default(CPU_PERCENT),
    )
    .addHelpText('after', NOTES)
    .action(async (flags: VerifyFlags) => runVerify(context, flags));
}

/** As the relay does it every day. */
const CPU_PERCENT = 2;

function wholePercent(text: string): number {
  const percent = Number(text);
  if (!/^\d{1,3}$/.test(text) || percent < 1 || percent > 100)
    throw new InvalidArgumentError('Give a whole number from 1 to 100.');
  return percent;
}

async function runVerify(context: CommandContext, flags: VerifyFlags): Promise<void> {
  if (flags.online) return verifyOnline(context, flags);
  const { storeDir, backup, positionFile } = flags;
  if (flags.archive !== undefined) return runVerifyArchive(context, flags);
  const places = {
    folder: resolve(storeDir),
    positionFile: positionFile === undefined ? undefined : resolve(positionFile),
  };
  const startedMs = performance.now();
  const report = await inAuditedStore(
    context,
    flags,
    (offline) => withProgress(context, verify(offline, backup === undefined ? { places } : {})),
    { isChecked: true },
  );
  const elapsedMs = performance.now() - startedMs;
  context.stdout.write(flags.json ? jsonLine(reportDocument(report, elapsedMs)) : reportText(report, elapsedMs));
  if (report.found > 0) context.exitCode = EXIT.failure;
}

async function runVerifyArchive(context: CommandContext, flags: VerifyFlags): Promise<void> {
  const report = await inAuditedStore(context, flags, (offline) => withProgress(context, verifyArchive(offline)));
  const { findings, firstLsn, lastLsn, hashed, relayPubkey } = report;
  if (flags.json) {
    const counts = { first_lsn: firstLsn, last_lsn: lastLsn, hashed, relay_pubkey: relayPubkey ?? null };
    context.stdout.write(jsonLine({ verified: report.found === 0, ...counts, found: report.found, findings }));
  } else {
    const whose = relayPubkey === undefined ? '' : ` of ${displayFingerprint(relayPubkey)}`;
    const looked = `log records ${firstLsn} to ${lastLsn}${whose}, ${hashed} of them by hashes of the tree`;
    const lines = findings.map(({ code, message }) => `${code}: ${printable(message)}.\n`);
    const end = report.found === 0 ? `Verified: ${looked}.\n` : `Not verified: ${report.found} found in ${looked}.\n`;
    context.stdout.write(`${lines.join('')}${end}`);
  }
  if (report.found > 0) context.exitCode = EXIT.failure;
}

function reportDocument({ findings, ...report }: VerifyReport, elapsedMs: number): object {
  const { firstBadLsn, relayPubkey, epoch, treeSize, rootHash, ...counts } = report;
  return {
    verified: report.found === 0,
    first_bad_lsn: firstBadLsn ?? null,
    relay_pubkey: relayPubkey ?? null,
    epoch: epoch ?? null,
    tree_size: treeSize ?? null,
    root_hash: rootHash ?? null,
    ...(documentOf(counts) as object),
    elapsed_seconds: Math.round(elapsedMs) / 1000,
    findings,
  };
}

function reportText(report: VerifyReport, elapsedMs: number): string {
  const { findings, untold, found, records, rows, payloads, bytes } = report;
  const seconds = elapsedMs / 1000;
  const speed = `${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s, ${(bytes / 1e6 / seconds).toFixed(0)} MB/s`;
  const gone = report.prunedThrough === 0 ? '' : `, those up to ${report.prunedThrough} were pruned`;
  const from = (report.replayedFrom ?? 1) === 1 ? '' : `, replayed from ${report.replayedFrom} on`;
  const looked = `${countText(records, 'log record')}${gone}${from}, ${countText(rows, 'row')} and ${countText(payloads, 'payload')} (${speed})`;
  if (found === 0) return `Verified: ${looked}.\n`;
  const lines = findings.map(({ code, message }) => `${code}: ${printable(message)}.\n`);
  const more = untold.map(({ code, count }) => `${code}: ${count} more.\n`);
  return `${[...lines, ...more].join('')}Not verified: ${found} found in ${looked}.\n`;
}
