/**
 * `poste relay log verify` checks that a store, or with `--online` a running relay, is what its log says; `rebuild`
 * makes everything but the log anew, from the log.
 */
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { systemClock } from '../../lib/clock.ts';
import { printable } from '../../protocol/printable.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { RowsCheckDocument } from '../../relay/operator/documents.ts';
import type { Progress } from '../../relay/replay/finding.ts';
import { type Rebuilt, rebuild } from '../../relay/replay/rebuild.ts';
import { documentOf } from '../../relay/replay/records.ts';
import { verifyArchive } from '../../relay/replay/verify-tree.ts';
import type { OfflineStore } from '../../relay/replay/offline.ts';
import type { VerifyReport } from '../../relay/replay/verification.ts';
import { verify } from '../../relay/replay/verify.ts';
import { mendCurrentUnopened } from '../../relay/store/unopened.ts';
import { LEVEL_FOLDER } from '../../relay/store/level.ts';
import type { FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, EXIT, usageFailure } from '../lib/exit.ts';
import { confirm, isInteractive } from '../lib/input.ts';
import { atWork, print, type Work } from '../lib/output.ts';
import { must } from '../lib/values.ts';
import { inAuditedStore, withAuditedLog } from './audited-store.ts';
import { relayOf } from './control-client.ts';
import { relayCommand } from './relay-command.ts';

const VERIFY_NOTES = `
It checks every log record; every row, checkpoint of the rows and hash tree against a replay of the log; the wire
bytes of every waiting item against their hash; the due indexes, the marks of the collector, the position file and the
key. A pruned log is replayed from its oldest checkpoint, and kept hashes stand in for deleted records. In an archive
it checks every record and its hash in the tree. Compare tree_size and root_hash of the JSON document with a
checkpoint of that size that you kept. Nothing is changed. The exit code is 1 when anything was found.

With --online the relay goes on: once a day, and when it is asked, it replays its log from the newest checkpoint
against its rows, in a thread that takes the given part of one processor. Hash trees, older records and wire bytes are
left out. What differs is reported as damage too, and a new epoch begins, so that every host looks at what it has. A
relay that follows a shared log begins none; it does not take the lead then.

Examples:
  $ poste relay log verify --online --store-dir /var/lib/poste
  $ poste relay log verify --backup poste.backup --json
  $ poste relay log verify --archive poste-log.archive`;

export function verifyCommand(context: CommandContext): Command {
  return draft(context)
    .notes(VERIFY_NOTES)
    .action(async (flags) => {
      const verifyOne = flags.online ? verifyRunning : flags.archive === undefined ? verifyStore : verifyOneArchive;
      const verdict = await verifyOne(context, flags);
      print(context, flags, verdict.document, () => textOf(verdict));
      if (verdict.found > 0) context.exitCode = EXIT.failure;
    });
}

function draft(context: CommandContext) {
  const position = 'where the relay notes its position (default: the file that it chose)';
  const online = 'ask the relay that runs on the store whether its rows are what its log gives';
  const percent = 'with --online: the part of one processor that it may use, 1 to 100';
  const conflicts = ['backup', 'archive'];
  return withAuditedLog(relayCommand(context, 'verify'))
    .option('--position-file <file>', position, { conflicts })
    .option('--online', online, { conflicts })
    .option('--cpu-percent <n>', percent, { parse: wholePercent, byDefault: CPU_PERCENT });
}

type VerifyFlags = FlagsOf<typeof draft>;

/** The relay takes as much every day. */
const CPU_PERCENT = 2;

function wholePercent(text: string): number {
  const percent = Number(text);
  must(/^\d{1,3}$/.test(text) && percent >= 1 && percent <= 100, 'Give a whole number from 1 to 100.');
  return percent;
}

export interface Verdict {
  document: object;
  found: number;
  findings: readonly { code: string; message: string }[];
  /** Lines that count the findings not listed. */
  more?: string;
  /** A clause that says how much was checked. */
  checked: string;
  /** The next step, where something was found. */
  next?: string;
}

export function textOf({ found, findings, more = '', checked, next = '' }: Verdict): string {
  const lines = findings.map(({ code, message }) => `${code}: ${printable(message)}.\n`).join('');
  return found === 0
    ? `${lines}Verified: ${checked}.\n`
    : `${lines}${more}Not verified: ${found} found in ${checked}.\n${next}`;
}

async function verifyStore(context: CommandContext, flags: VerifyFlags): Promise<Verdict> {
  const { storeDir, backup, positionFile } = flags;
  const places = {
    folder: resolve(storeDir),
    positionFile: positionFile === undefined ? undefined : resolve(positionFile),
  };
  const options = backup === undefined ? { places } : {};
  const verified = await inAuditedStore(context, flags, (offline, work) => verifyOpened(offline, work, options), {
    isChecked: true,
  });
  return verified.verdict;
}

export async function verifyOpened(
  offline: OfflineStore,
  work: Work,
  options: Parameters<typeof verify>[1] = {},
): Promise<{ verdict: Verdict; report: VerifyReport }> {
  const startedMs = performance.now();
  const report = await work.run(verify(offline, options));
  const elapsedMs = performance.now() - startedMs;
  const { findings, untold, ...plain } = report;
  const { found, records, rows, payloads, bytes, prunedThrough, replayedFrom = 1 } = plain;
  const { firstBadLsn, relayPubkey, epoch, treeSize, rootHash, ...counts } = { ...plain, untold };
  const seconds = elapsedMs / 1000;
  const speed = `${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s, ${(bytes / 1e6 / seconds).toFixed(0)} MB/s`;
  const gone = prunedThrough === 0 ? '' : `, those up to ${prunedThrough} were pruned`;
  const from = replayedFrom === 1 ? '' : `, replayed from ${replayedFrom} on`;
  const verdict = {
    document: {
      verified: found === 0,
      first_bad_lsn: firstBadLsn ?? null,
      relay_pubkey: relayPubkey ?? null,
      epoch: epoch ?? null,
      tree_size: treeSize ?? null,
      root_hash: rootHash ?? null,
      ...documentOf(counts),
      elapsed_seconds: Math.round(elapsedMs) / 1000,
      findings,
    },
    found,
    findings,
    more: untold.map(({ code, count }) => `${code}: ${count} more.\n`).join(''),
    checked:
      `${countText(records, 'log record')}${gone}${from}, ${countText(rows, 'row')} and ` +
      `${countText(payloads, 'payload')} (${speed})`,
  };
  return { verdict, report };
}

async function verifyOneArchive(context: CommandContext, flags: VerifyFlags): Promise<Verdict> {
  const report = await inAuditedStore(context, flags, (offline, work) => work.run(verifyArchive(offline)));
  const { findings, found, firstLsn, lastLsn, hashed, relayPubkey } = report;
  const counts = { first_lsn: firstLsn, last_lsn: lastLsn, hashed, relay_pubkey: relayPubkey ?? null };
  const whose = relayPubkey === undefined ? '' : ` of ${displayFingerprint(relayPubkey)}`;
  return {
    document: { verified: found === 0, ...counts, found, findings },
    found,
    findings,
    checked: `log records ${firstLsn} to ${lastLsn}${whose}, ${hashed} of them by hashes of the tree`,
  };
}

type Report = Extract<RowsCheckDocument, { type: 'report' }>;

/** Asks the relay that runs. It goes on with a check whose asker went away. */
async function verifyRunning(context: CommandContext, flags: VerifyFlags): Promise<Verdict> {
  const report = await atWork(context, (work) => {
    const lines = relayOf(flags).follow('/v1/verify', { cpu_percent: flags.cpuPercent }, work.signal);
    return work.run(lastReport(lines));
  });
  const { type: _type, busy_ms: busyMs, duration_ms: durationMs, ...counts } = report;
  const { findings, found, records, rows, replayed_from: from } = counts;
  const time = `${(durationMs / 1000).toFixed(1)} s, of which it worked ${(busyMs / 1000).toFixed(1)} s`;
  const replayed = `${countText(records, 'log record')}, replayed from ${from} on`;
  const seconds = { busy_seconds: Math.round(busyMs) / 1000, elapsed_seconds: Math.round(durationMs) / 1000 };
  return {
    document: { verified: found === 0, ...counts, ...seconds },
    found,
    findings,
    more: found > findings.length ? `${found - findings.length} more.\n` : '',
    checked: `${countText(rows, 'row')} against ${replayed} (${time})`,
    next:
      'Stop the relay, run poste relay log verify, and then poste relay log rebuild. Where the log is shared, ' +
      'move the database aside instead.\n',
  };
}

async function* lastReport(lines: AsyncIterable<RowsCheckDocument>): AsyncGenerator<Progress, Report> {
  for await (const line of lines) {
    if (line.type === 'report') return line;
    if (line.type === 'failed') break;
    yield { stage: line.stage, done: line.done, of: line.of ?? undefined };
  }
  const message = 'the relay gave the check up, because it stops or something failed: its log says why; try again';
  throw new CommandFailed('temporary', 'CHECK_ENDED', message);
}

const REBUILD_NOTES = `
Rows, indexes and marks are made by a replay; the log and the wire bytes of waiting items are copied, and no sequence
number changes. The former database stays beside the new one until you delete it. The log must be whole: check it with
poste relay log verify. A CURRENT file that is lost or torn is made anew first, where the newest MANIFEST and all its
tables are there.

Examples:
  $ poste relay log rebuild --store-dir /var/lib/poste --yes`;

export function rebuildCommand(context: CommandContext): Command {
  return relayCommand(context, 'rebuild')
    .option('--yes', 'do not ask for confirmation')
    .notes(REBUILD_NOTES)
    .action(async (flags) => {
      const folder = resolve(flags.storeDir);
      const manifest = await mendCurrentUnopened(join(folder, LEVEL_FOLDER));
      if (manifest !== undefined)
        context.stderr.write(`CURRENT was lost or torn, and names ${manifest} again, whose tables are all there.\n`);
      await inAuditedStore(context, flags, async (offline, work) => {
        if (!flags.yes && !isInteractive(context))
          throw usageFailure('without a terminal Poste cannot ask for confirmation: give --yes to rebuild');
        const records = countText(offline.store.lastLsn, 'log record');
        if (!flags.yes) await confirm(context, `Rebuild the store at ${printable(folder)} from ${records}?`);
        const rebuilt = await work.run(rebuild(offline, folder, systemClock));
        print(context, flags, rebuiltDocument(rebuilt), () => rebuiltText(rebuilt));
      });
    });
}

function rebuiltDocument({ events, rows, payloads, lost, lostItems, replaced, elapsedMs }: Rebuilt): object {
  const named = lostItems.map(({ targetPubkey, seq, kind, itemId, senderPubkey }) => {
    return { targetPubkey, seq, kind, itemId, senderPubkey };
  });
  const eventsPerSecond = perSecond(events, elapsedMs);
  return documentOf({ events, rows, payloads, lost, lostItems: named, replaced, eventsPerSecond });
}

function rebuiltText({ events, rows, payloads, lost, lostItems, replaced, elapsedMs }: Rebuilt): string {
  const speed = `${perSecond(events, elapsedMs)} events/s`;
  const lines = lostItems.map(({ targetPubkey, seq, kind, itemId }) => {
    return `  ${kind} ${printable(itemId)} for ${displayFingerprint(targetPubkey)} at seq ${seq}\n`;
  });
  const more = lost > lostItems.length ? `  and ${lost - lostItems.length} more\n` : '';
  const losses =
    lost === 0
      ? ''
      : 'Without wire bytes, so that the relay will report them lost when they are pulled ' +
        `(${lost}):\n${lines.join('')}${more}`;
  return (
    `Rebuilt: ${countText(rows, 'row')} of ${countText(events, 'event')} (${speed}), ` +
    `${countText(payloads, 'payload')} kept.\n${losses}The former database is ${printable(replaced)}: delete ` +
    'it when the relay runs well.\n'
  );
}

function perSecond(events: number, elapsedMs: number): number {
  return Math.round((events / Math.max(elapsedMs, 1)) * 1000);
}
