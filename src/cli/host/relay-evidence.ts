/** `poste relay evidence`: what a relay signed that does not fit together, as this host and paired hosts saw it. */
import { statSync } from 'node:fs';
import { open, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Command } from 'commander';
import type { EvidenceResult, EvidenceShowResult, EvidenceView } from '../../host/contract/relays.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { replaceFile } from '../../lib/files.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { type JsonBounds, parseJsonBounded } from '../../protocol/json.ts';
import { printable } from '../../protocol/printable.ts';
import { type CheckedEvidence, checkEvidence, type Verdict } from '../../relay/replay/evidence-check.ts';
import { leavesText, NotVerified } from '../../relay/replay/proof-check.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, daemonCommand } from '../lib/daemon-call.ts';
import { CommandFailed, EXIT } from '../lib/exit.ts';
import { formatFields, formatLines, JSON_FLAG } from '../lib/format.ts';
import { exitOfFile, givenText, nameOf } from '../lib/input.ts';
import { print } from '../lib/output.ts';
import { formatTime, type Screen } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { relayKey, wholeNumber } from '../lib/values.ts';

const NOTES = `
A host keeps what its relay signed, and compares it with what the relay signs later and with what paired hosts were
shown. What does not fit together is evidence. While signed evidence of two histories is not dismissed, mail takes the
LAN where that reaches the other host, poste relay status says two-histories, and poste doctor is broken.

Examples:
  $ poste relay evidence
  $ poste relay evidence show 1
  $ poste relay evidence export 1 evidence.json
  $ poste relay evidence check evidence.json --relay-key SHA256:...
  $ poste relay evidence dismiss 1`;

export function evidenceCommand(context: CommandContext): Command {
  const evidence = new Command('evidence').addHelpText('after', NOTES);
  daemonCommand(context, 'list')
    .childOf(evidence, 'List the evidence against relays, the oldest first.', { isDefault: true })
    .notes('\nExample:\n  $ poste relay evidence list --json')
    .answers((flags) => ask(context, 'relay-evidence', {}, flags))
    .prints((list, screen) => evidenceText(screen, list));
  numbered(context, 'show', 'show 1')
    .childOf(evidence, 'Show one piece of evidence, and what its signatures prove.')
    .answers((number, flags) => ask(context, 'relay-evidence-show', { number }, flags))
    .prints((shown, screen) => shownText(screen, shown));
  numbered(context, 'export', 'export 1 evidence.json')
    .childOf(evidence, 'Write one piece of evidence into a file that anybody can check.')
    .argument('<file>', 'the file, - for standard output')
    .option('--force', 'replace an existing file')
    .action(async (number, file, flags) => {
      const { evidence: shown, document } = await ask(context, 'relay-evidence-show', { number }, flags);
      const text = `${JSON.stringify(document, null, 2)}\n`;
      if (file === '-') {
        context.stdout.write(text);
        return;
      }
      const path = resolve(file);
      await writeEvidence(path, text, flags.force);
      print(context, flags, { file: path, number, digest: shown.digest }, () => {
        const words = [shellWord(file), '--relay-key', shellWord(shown.fingerprint)].join(' ');
        return `Wrote ${printable(file)}. Anybody can check it:\n  poste relay evidence check ${printable(words)}\n`;
      });
    });
  const about = 'the base64 key or the SHA256: fingerprint of the relay';
  new CommandDraft(context, 'check')
    .childOf(evidence, 'Check offline whether exported evidence shows that a relay contradicts itself.')
    .argument('<file>', 'the evidence, - for standard input')
    .option('--relay-key <key>', about, { parse: relayKey, isNeeded: true })
    .option(...JSON_FLAG)
    .notes(CHECK_NOTES)
    .answers(async (file, { relayKey: key }) => {
      const { relayPubkey, ...checked } = await checkedFile(context, file, key);
      context.exitCode = EXIT_OF[checked.verdict];
      return { relay_pubkey: relayPubkey, fingerprint: displayFingerprint(relayPubkey), ...checked };
    })
    .prints((checked) => checkedText(checked.fingerprint, checked));
  numbered(context, 'dismiss', 'dismiss 1')
    .childOf(evidence, 'End the warnings about one piece of evidence; it stays in the list.')
    .answers((number, flags) => ask(context, 'relay-evidence-dismiss', { number }, flags))
    .prints(({ sentence }, _screen, number) => `Dismissed number ${number}: ${printable(sentence)}\n`);
  return evidence;
}

function numbered(context: CommandContext, name: string, example: string) {
  return daemonCommand(context, name)
    .argument('<number>', 'its number in the list', wholeNumber(1))
    .notes(`\nExample:\n  $ poste relay evidence ${example}`);
}

/**
 * A file is written as a whole or not at all, and takes its name first: of two commands at once one is refused. A
 * device or a pipe takes what it takes.
 */
async function writeEvidence(path: string, text: string, force = false): Promise<void> {
  let isNew = false;
  try {
    if (!force) {
      await (await open(path, 'wx', 0o600)).close();
      isNew = true;
    }
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
    await (isFile ? replaceFile(path, text) : writeFile(path, text));
  } catch (error) {
    if (isNew) await rm(path, { force: true });
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
    const advice = isThere ? 'name another file, or add --force' : 'name a file that you can write';
    const exit = isThere ? 'conflict' : exitOfFile(error);
    throw new CommandFailed(exit, 'FILE_UNWRITTEN', `${path} cannot be written (${fileFault(error)}): ${advice}`);
  }
}

export function evidenceText(screen: Screen, { evidence }: EvidenceResult): string {
  if (evidence.length === 0) return 'There is no evidence against a relay.\n';
  return table(screen, evidence, COLUMNS);
}

const COLUMNS: readonly Column<EvidenceView>[] = [
  { title: 'NUMBER', cell: ({ number }) => String(number), isNumber: true },
  { title: 'KIND', cell: ({ kind }) => kind },
  { title: 'SIGNED', cell: ({ signed }) => (signed ? 'yes' : 'no') },
  { title: 'RELAY', id: ({ fingerprint }) => fingerprint },
  { title: 'FOUND', time: ({ found_at }) => found_at },
  { title: 'DISMISSED', time: ({ dismissed_at }) => dismissed_at },
  { title: 'WHAT', cell: ({ sentence }) => sentence },
];

export function shownText(screen: Screen, { evidence, document }: EvidenceShowResult): string {
  const { number, kind, signed, sentence, fingerprint, hosts, item_id: itemId, dismissed_at: dismissed } = evidence;
  const rows = [
    ['kind', signed ? kind : `${kind}, which the relay's signatures alone do not prove`],
    ['relay', fingerprint],
    ['epoch', evidence.epoch],
    ['hosts', ['this host', ...hosts].join(', ')],
    itemId !== null && ['item', itemId],
    ['found', formatTime(screen, evidence.found_at)],
    ['dismissed', dismissed === null ? 'no' : formatTime(screen, dismissed)],
  ];
  const checked = checkEvidence(document, evidence.relay_pubkey);
  return `Number ${number}: ${printable(sentence)}\n${formatFields(rows, 10)}\n${checkedText(fingerprint, checked)}`;
}

const EVIDENCE_BYTES_MAX = 1 << 20;
const EVIDENCE_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 10_000, membersMax: 100 };

const CHECK_NOTES = `
The file is what poste relay evidence export wrote, on this host or another. The check asks nobody: it needs the file
and the key of the relay, and believes only what that key signed. Take the key from your own poste relay status, or from
somebody whom you trust, and not from the one who gave you the file.

Exit code:
  1  the notes contradict each other: the relay showed two histories
  0  the notes agree
  2  it cannot be told, or the file is none of this relay

Examples:
  $ poste relay evidence check evidence.json --relay-key SHA256:...
  $ ssh server poste relay evidence export 1 - | poste relay evidence check - --relay-key SHA256:...`;

/** No fault ends with the exit codes of the other verdicts. */
const CANNOT_TELL = 'usage';
const EXIT_OF: Readonly<Record<Verdict, number>> = {
  contradict: EXIT.failure,
  agree: EXIT.ok,
  'cannot-tell': EXIT[CANNOT_TELL],
};

async function checkedFile(context: CommandContext, file: string, key: string): Promise<CheckedEvidence> {
  const advice = 'name a file that poste relay evidence export wrote';
  const given = { code: 'NO_FILE', advice, bytesMax: EVIDENCE_BYTES_MAX, otherwise: CANNOT_TELL } as const;
  const text = await givenText(context, file, given);
  const document = parseJsonBounded(Buffer.from(text), EVIDENCE_JSON_BOUNDS);
  try {
    if (document === undefined) throw new NotVerified('the document is no JSON, or is nested too deep');
    return checkEvidence(document, key);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new CommandFailed(CANNOT_TELL, 'NOT_VERIFIED', `${nameOf(file)} cannot be checked: ${error.message}`);
  }
}

function checkedText(fingerprint: string, { verdict, notes, findings }: Omit<CheckedEvidence, 'relayPubkey'>): string {
  const shown = notes.map(({ epoch, size, root_hash: root, after }, at) => {
    const order = after.length === 0 ? '' : `, signed after ${after.map((number) => `note ${number}`).join(' and ')}`;
    return `Note ${at + 1}: ${leavesText(size)} of epoch ${epoch}, root ${root}${order}.`;
  });
  return formatLines([VERDICT_TEXT[verdict](fingerprint), ...findings, ...shown]);
}

const VERDICT_TEXT: Readonly<Record<Verdict, (relay: string) => string>> = {
  contradict: (relay) => `The notes that the relay ${relay} signed contradict each other.`,
  agree: (relay) => `The notes that the relay ${relay} signed agree: the proofs join them into one history.`,
  'cannot-tell': (relay) =>
    `The notes that the relay ${relay} signed do not contradict each other, and nothing here joins them.`,
};
