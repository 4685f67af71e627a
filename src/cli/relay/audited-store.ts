/**
 * The store that an audit reads: the folder of a stopped relay, a backup file, or an archive of the log. Which hosts of
 * it an operator means, and what a pruned log no longer holds.
 */
import { resolve } from 'node:path';
import { foldHostName } from '../../protocol/names.ts';
import { printable } from '../../protocol/printable.ts';
import { displayFingerprint, hostFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import type { EnrolmentRow } from '../../relay/core/rows.ts';
import type { FormatHost } from '../../relay/core/describe-event.ts';
import { StoreFailed } from '../../relay/engine/committer.ts';
import { ReplayFailed } from '../../relay/replay/replay.ts';
import { BulkFailed } from '../../relay/store/bulk-database.ts';
import { type OfflineStore, openArchive, openBackup, openOffline } from '../../relay/replay/offline.ts';
import { DamagedRecord } from '../../relay/store/record.ts';
import { storeRemedy, systemRemedy } from '../../lib/file-fault.ts';
import { isSystemError } from '../../relay/store/refused.ts';
import type { CommandDraft, FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { fingerprintMeant } from '../lib/short-id.ts';
import { CommandFailed } from '../lib/exit.ts';
import { type Work, atWork } from '../lib/output.ts';
import type { RelayFlags } from './relay-command.ts';
import { parseHostReference } from '../../relay/operator/host-reference.ts';

export function withAuditedStore(draft: CommandDraft<[], RelayFlags>) {
  return draft.option('--backup <file>', 'read this backup file instead');
}

export function withAuditedLog(draft: CommandDraft<[], RelayFlags>) {
  const conflicts = ['backup'];
  return withAuditedStore(draft).option('--archive <file>', 'read this archive of the log instead', { conflicts });
}

type AuditedStoreFlags = FlagsOf<typeof withAuditedLog>;

/**
 * Opens the store, lets `look` look into it, and closes it again; what is temporary is removed also when the command is
 * interrupted. Throws `CommandFailed`.
 */
export async function inAuditedStore<T>(
  context: CommandContext,
  flags: AuditedStoreFlags,
  look: (offline: OfflineStore, work: Work) => Promise<T>,
  options: { isChecked?: boolean } = {},
): Promise<T> {
  const { storeDir, backup, archive } = flags;
  return atWork(context, async (work) => {
    try {
      const offline =
        archive !== undefined
          ? await openArchive(resolve(archive), work.signal)
          : backup !== undefined
            ? await openBackup(resolve(backup), work.signal)
            : await openOffline(resolve(storeDir), options);
      try {
        return await look(offline, work);
      } finally {
        await offline.close();
      }
    } catch (error) {
      throw auditFailure(error, archive ?? backup ?? storeDir);
    }
  });
}

function auditFailure(error: unknown, place: string): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const remedy = 'run poste relay log verify to see why';
  if (error instanceof DamagedRecord || error instanceof ReplayFailed)
    return failure('LOG_DAMAGED', `the log of ${place} cannot be read any further (${message}): ${remedy}`);
  if (error instanceof BulkFailed)
    return failure('NO_SPACE', `${message}: free some space, or choose another folder for temporary files with TMPDIR`);
  if (error instanceof StoreFailed)
    return failure('UNUSABLE', `the copy of ${place} cannot be written: ${storeRemedy(error.cause)} (TMPDIR) first`);
  if (code === 'LEVEL_CORRUPTION' || code === 'LEVEL_IO_ERROR') {
    const unread = `the database of ${place} cannot be read (${message})`;
    return isSystemError(message)
      ? failure('UNUSABLE', `${unread}: ${systemRemedy(message)} first; the data itself may be intact`)
      : failure('STORE_DAMAGED', `${unread}: restore the newest backup that verifies`);
  }
  // The file system refused something.
  if (!(error instanceof CommandFailed) && /^E[A-Z]+$/.test(code))
    return failure('UNUSABLE', `the store of ${place} cannot be used (${message}): repair that first`);
  return error;
}

function failure(code: string, message: string): CommandFailed {
  return new CommandFailed('failure', code, message);
}

const FINGERPRINT_CHARACTERS = 8;

/** The enrolments of the store; none where they cannot be read, which poste relay log verify reports. */
export function enrolmentsOf({ store }: OfflineStore): Promise<EnrolmentRow[]> {
  return store.enrolments().catch(() => []);
}

/** `laptop/YGR2P3Va`: the name, which a stranger chose, and the first characters of the fingerprint. */
export function hostFormatter(enrolments: readonly EnrolmentRow[]): FormatHost {
  const names = new Map(enrolments.map(({ hostPubkey, hostName }) => [hostPubkey, hostName]));
  return (key) => {
    const fingerprint = displayFingerprint(key);
    const name = names.get(key);
    if (name === undefined) return fingerprint;
    return `${printable(name)}/${fingerprint.slice('SHA256:'.length).slice(0, FINGERPRINT_CHARACTERS)}`;
  };
}

/** Every key of the hosts that `text` names: a host is all keys that rotations joined. Throws `CommandFailed`. */
export function requireKeysOf(text: string, enrolments: readonly EnrolmentRow[]): Set<PublicKey> {
  const keys = knownKeysOf(text, enrolments);
  if (keys.size > 0) return keys;
  const remedy = 'use a fingerprint, a public key or a name of an enrolment in the store';
  throw new CommandFailed('notFound', 'UNKNOWN_HOST', `no host is known as ${printable(text)}: ${remedy}`);
}

/** Does what `requireKeysOf` does, where a host is named. */
export function chosenKeys(text: string | undefined, enrolments: readonly EnrolmentRow[]): Set<PublicKey> | undefined {
  return text === undefined ? undefined : requireKeysOf(text, enrolments);
}

/** Does what `requireKeysOf` does, and gives none where there is no such host. */
export function knownKeysOf(text: string, enrolments: readonly EnrolmentRow[]): Set<PublicKey> {
  const known = enrolments.map(({ hostPubkey, hostName }) => {
    return { host: hostName, fingerprint: displayFingerprint(hostPubkey) };
  });
  const reference = parseHostReference(fingerprintMeant(text, known));
  const isMeant = (key: PublicKey, name: EnrolmentRow['hostName']): boolean => {
    switch (reference?.type) {
      case 'Fingerprint':
        return hostFingerprint(key) === reference.fingerprint;
      case 'Key':
        return key === reference.hostPubkey;
      case 'Name':
        return foldHostName(name) === foldHostName(reference.name);
      default:
        return false;
    }
  };
  const meant = enrolments.filter(({ hostPubkey, hostName }) => isMeant(hostPubkey, hostName));
  const keys = new Set(meant.map(({ hostPubkey }) => hostPubkey));
  if (reference?.type === 'Key') keys.add(reference.hostPubkey);
  for (let before = -1; before < keys.size; ) {
    before = keys.size;
    for (const { hostPubkey, rotatedTo } of enrolments) {
      if (rotatedTo === null || !(keys.has(hostPubkey) || keys.has(rotatedTo))) continue;
      keys.add(hostPubkey).add(rotatedTo);
    }
  }
  return keys;
}

/** The clause begins a sentence. */
export function prunedClause({ store }: OfflineStore): string {
  const { throughLsn, atMs } = store.pruned;
  return `the log was pruned through record ${throughLsn}, written ${isoTime(atMs)}`;
}

/** A sentence about the records before; empty where nothing was pruned. */
export function prunedNotice(offline: OfflineStore): string {
  if (offline.store.pruned.throughLsn === 0) return '';
  return `poste: ${prunedClause(offline)}; earlier records are in archives of the log and in older backups.\n`;
}
