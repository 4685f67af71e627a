/** `poste relay rehearse`: what an upgrade of a relay would change for its hosts, tried on a backup. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { SocketRequestFailed } from '../../lib/socket-request.ts';
import { SocketUnavailable } from '../../lib/unix-socket.ts';
import { jsonIn } from '../../protocol/json.ts';
import { printable } from '../../protocol/printable.ts';
import { type RehearsedRelay, startRehearsal } from '../../relay/rehearsal.ts';
import { type Comparison, compareRehearsals, parseRehearsal, type Rehearsal } from '../../relay/replay/answers.ts';
import { type CheckedAnswers, askEverything, type LogEnd } from '../../relay/replay/questions.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, EXIT } from '../lib/exit.ts';
import { findProgram } from '../lib/find-program.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { exitOfFile } from '../lib/input.ts';
import { atWork, print, type Work } from '../lib/output.ts';
import { inAuditedStore } from './audited-store.ts';
import { textOf, type Verdict, verifyOpened } from './log-verify.ts';

const NOTES = `
Run it with the new version before you replace the old one. It verifies the backup as poste relay log verify does,
starts a relay on a copy of it in the folder for temporary files, and asks that one what strangers and up to 100 hosts
ask: who it is, the log, ten pages of what waits for each, and the proofs of the first and the last item on them. Each
answer must be what the protocol and the verified log say. With --against the other version rehearses the same backup,
and the answers of both are compared; a member that only this version answers is no difference.

No key of the relay or of a host is needed. The copy has a key of its own, is reached by nobody else, and is removed.
A document of --json holds hashes of the answers and no mail: keep that of a backup, and compare later versions with it.
The exit code is 1 when anything differs or is wrong.

Examples:
  $ poste relay rehearse --backup poste.backup --against /opt/poste-old/bin/poste
  $ poste relay rehearse --backup poste.backup --json > before.json
  $ poste relay rehearse --backup poste.backup --against before.json`;

export function rehearseCommand(context: CommandContext): Command {
  const against = 'the poste program of the other version, or the document that it wrote with --json';
  return new CommandDraft(context, 'rehearse')
    .option('--backup <file>', 'the backup to rehearse on', { isNeeded: true })
    .option('--against <path>', against)
    .option(...JSON_FLAG)
    .notes(NOTES)
    .action(async (flags) => {
      const { document, text, isGood } = resultOf(await rehearse(context, resolve(flags.backup), flags.against));
      print(context, flags, document, () => text);
      if (!isGood) context.exitCode = EXIT.failure;
    });
}

async function rehearse(context: CommandContext, backup: string, against: string | undefined): Promise<RehearsalEnd> {
  // Before: its copy is gone when this one is unpacked.
  const theirs = against === undefined ? undefined : await otherVersion(context, resolve(against), backup);
  return inAuditedStore(context, { storeDir: '', backup }, async (offline, work) => {
    const { store, header } = offline;
    if (theirs && (theirs.relay_pubkey !== header?.relay_pubkey || theirs.lsn !== header.lsn))
      throw notToBeCompared(`the other version rehearsed another backup, up to log record ${theirs.lsn}: use that one`);
    const { verdict, report } = await verifyOpened(offline, work);
    const { epoch, treeSize, rootHash, lsn } = report;
    if (verdict.found > 0 || !header || epoch === undefined || treeSize === undefined || rootHash === undefined)
      return { verdict };
    const end = { epoch, treeSize, rootHash };
    const version = softwareVersion();
    const relay = await startRehearsal(store, header.schema_version, version);
    const { answers, hosts, faults } = await askRelay(relay, end, work);
    const ours: Rehearsal = {
      rehearsed: faults.length === 0,
      version,
      relay_pubkey: header.relay_pubkey,
      epoch,
      lsn,
      tree_size: treeSize,
      root_hash: rootHash,
      answers,
    };
    return { verdict, ours, hosts, faults, theirs, ...(theirs && { compared: compareRehearsals(ours, theirs) }) };
  }).catch((error: unknown) => {
    throw error instanceof SocketUnavailable || error instanceof SocketRequestFailed
      ? new CommandFailed('failure', 'SOCKET_UNAVAILABLE', error.message)
      : error;
  });
}

async function askRelay(relay: RehearsedRelay, end: LogEnd, work: Work): Promise<CheckedAnswers> {
  try {
    return await work.run(askEverything(relay, end));
  } finally {
    await relay.stop();
  }
}

interface RehearsalEnd {
  verdict: Verdict;
  ours?: Rehearsal;
  hosts?: number;
  faults?: readonly string[];
  theirs?: Rehearsal | undefined;
  compared?: Comparison;
}

function resultOf({ verdict, ours, hosts = 0, faults = [], theirs, compared }: RehearsalEnd): {
  document: object;
  text: string;
  isGood: boolean;
} {
  if (!ours) return { document: { rehearsed: false, ...verdict.document }, text: textOf(verdict), isGood: false };
  const { differences = [], added = [] } = compared ?? {};
  const document = { ...ours, hosts, faults, against: theirs?.version ?? null, differences, added_members: added };
  const asked = `${countText(ours.answers.length, 'answer')} of Poste ${ours.version} for ${countText(hosts, 'host')}`;
  const wrong = [...faults, ...differences];
  const lines = wrong.map((line) => `${printable(line)}.\n`).join('');
  if (wrong.length > 0)
    return { document, text: `${lines}Do not upgrade yet: ${wrong.length} found in ${asked}.\n`, isGood: false };
  const news = added.length === 0 ? '' : `, and ${added.join(', ')} besides`;
  const so = theirs ? `are those of Poste ${theirs.version}${news}` : 'are what the verified log says';
  return { document, text: `Rehearsed: ${asked} ${so}.\n`, isGood: true };
}

/** The rehearsal of another version: a document of it, or that of a program which rehearses now. */
async function otherVersion(context: CommandContext, path: string, backup: string): Promise<Rehearsal> {
  let content: Buffer;
  try {
    content = await readFile(path);
  } catch (error) {
    const message = `${path} cannot be read (${fileFault(error)}): name a poste program, or a document of --json`;
    throw new CommandFailed(exitOfFile(error, 'refused'), 'NO_OTHER_VERSION', message);
  }
  if (content.subarray(0, 1).toString() !== '{') return atWork(context, (work) => rehearseBy(path, backup, work));
  const rehearsal = parseRehearsal(jsonIn(content.toString()));
  if (!rehearsal) throw notToBeCompared(`${path} is no document of poste relay rehearse --json`);
  return rehearsal;
}

const OUTPUT_BYTES_MAX = 1 << 28;
const SAID_MAX = 300;

function rehearseBy(program: string, backup: string, { signal }: Work): Promise<Rehearsal> {
  const args = ['relay', 'rehearse', '--backup', backup, '--json'];
  const [file, before] = findProgram(program, undefined) ? [program, []] : [process.execPath, [program]];
  return new Promise((done, reject) => {
    execFile(file, [...before, ...args], { signal, maxBuffer: OUTPUT_BYTES_MAX }, (error, stdout, stderr) => {
      const rehearsal = parseRehearsal(jsonIn(stdout));
      if (rehearsal) done(rehearsal);
      else if (signal.aborted) reject(signal.reason as Error);
      else {
        const silent = typeof error?.code === 'string' ? error.message : 'it said nothing';
        reject(notToBeCompared(`${program} did not rehearse: ${reasonIn(stdout, stderr) || silent}`));
      }
    });
  });
}

/** Says why a program did not rehearse: its failure says it, or the number that it found; else its last line. */
function reasonIn(stdout: string, stderr: string): string {
  const line = (stderr.trim() || stdout.trim()).split('\n').at(-1) ?? '';
  const { message, found } = (jsonIn(line) ?? {}) as { message?: unknown; found?: unknown };
  if (typeof found === 'number') return `it does not verify the backup, in which it found ${found} wrong`;
  return printable(typeof message === 'string' ? message : line.slice(0, SAID_MAX));
}

function notToBeCompared(message: string): CommandFailed {
  return new CommandFailed('failure', 'NOT_COMPARED', message);
}
