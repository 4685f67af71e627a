/** The end of a command when a part of the relay throws: each error with its exit and its code, in one table. */
import { ListenFailed } from '../../http/listen-failed.ts';
import { TlsRefused } from '../../http/tls-files.ts';
import { storeRemedy } from '../../lib/file-fault.ts';
import { StoreFailed } from '../../relay/engine/committer.ts';
import { NotVerified } from '../../relay/replay/proof-check.ts';
import { TooFewFiles } from '../../relay/serve/connection-limits.ts';
import {
  Fenced,
  LogRefused,
  LogUnreachable,
  NoSecondCopy,
  NotWritten,
  OutcomeUnknown,
  ServerRefused,
} from '../../relay/shared-log/shared-log.ts';
import { type RefusedReason, StoreRefused } from '../../relay/store/refused.ts';
import { CommandFailed, type ExitName } from '../lib/exit.ts';
import { exitOfFile } from '../lib/input.ts';

/** A kind of error, what it ends the command with, and what is said behind its message. */
type Failure = [type: abstract new (...args: never[]) => Error, exit: ExitName, code: string, more?: string];

/** The first row that fits holds. */
const FAILURES: readonly Failure[] = [
  // A supervisor starts a relay again for it, and not for what its operator must mend before.
  [ServerRefused, 'failure', 'LOG_REFUSED'],
  [LogRefused, 'refused', 'LOG_REFUSED'],
  // A relay waits; somebody who gave a command is there to mend it.
  [NoSecondCopy, 'refused', 'NO_SECOND_COPY'],
  [LogUnreachable, 'temporary', 'LOG_UNREACHABLE'],
  [NotWritten, 'temporary', 'LOG_UNREACHABLE'],
  [Fenced, 'temporary', 'FENCED', ': start this one again, and it follows'],
  [OutcomeUnknown, 'temporary', 'OUTCOME_UNKNOWN', ': start the relay again, and it finds out'],
  [TooFewFiles, 'refused', 'TOO_FEW_FILES'],
  [ListenFailed, 'conflict', 'LISTEN_FAILED'],
  [NotVerified, 'failure', 'NOT_VERIFIED'],
];

const REFUSED_EXIT: Readonly<Record<RefusedReason, ExitName>> = {
  locked: 'conflict',
  missing: 'notFound',
  'missing-key-file': 'notFound',
  'foreign-key': 'refused',
  'missing-key': 'refused',
  'unreadable-key': 'refused',
  'newer-schema': 'refused',
  view: 'refused',
  'not-allowed': 'refused',
  damaged: 'failure',
  unusable: 'failure',
};

/** The failure of the command; `undefined` for an error that is none of the relay. */
export function relayFailure(error: unknown): CommandFailed | undefined {
  if (error instanceof StoreRefused) return storeRefused(error);
  if (error instanceof TlsRefused)
    return new CommandFailed(exitOfFile(error.cause, 'refused'), 'TLS_REFUSED', error.message);
  const row = FAILURES.find(([type]) => error instanceof type);
  if (row) return new CommandFailed(row[1], row[2], `${(error as Error).message}${row[3] ?? ''}`);
  if (!(error instanceof StoreFailed)) return undefined;
  const { message, cause } = error;
  const remedy = `${message}: ${storeRemedy(cause)}, and start the relay again`;
  return relayFailure(cause) ?? new CommandFailed('failure', 'STORE_FAILED', remedy);
}

export function storeRefused({ reason, message }: StoreRefused): CommandFailed {
  return new CommandFailed(REFUSED_EXIT[reason], `STORE_${reason.toUpperCase().replaceAll('-', '_')}`, message);
}
