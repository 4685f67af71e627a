/** The parts of the engine that carry out commands work with these, and report this. */
import type { Signer } from '../../protocol/ed25519.ts';
import type { ItemRejection } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Admissions, Directory } from '../core/directory.ts';
import type { PushOutcome, RelaySettings } from '../core/decision.ts';
import type { MailUse } from '../core/mail-use.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { CommittedBatch, Committer } from './committer.ts';
import type { Queues } from './queues.ts';

export interface EngineParts {
  store: RelayStore;
  committer: Committer;
  settings: RelaySettings;
  /** The relay's own key. */
  signer: Signer;
  directory: Directory;
  admissions: Admissions;
  mail: MailUse;
  queues: Queues;
  observer: EngineObserver;
  monotonicMs: () => number;
}

/**
 * The engine reports to metrics and the operator's console through it. It never waits for them. Called once for each
 * request or batch, not for each item; must not throw.
 */
export interface EngineObserver {
  /** Hears what became of the items of one request, once that is durable. */
  pushed(outcomes: readonly PushOutcome[]): void;
  /** Items that were refused before they were commands. */
  unread(rejection: ItemRejection, count: number): void;
  /** A host was shown its queue up to `through`; `undefined` when nothing waited. */
  pulled(target: PublicKey, through: number | undefined): void;
  committed(batch: CommittedBatch): void;
}

export const NO_OBSERVER: EngineObserver = {
  pushed: () => undefined,
  unread: () => undefined,
  pulled: () => undefined,
  committed: () => undefined,
};
