/** What the parts of the engine that carry out commands work with. */
import type { Signer } from '../../protocol/ed25519.ts';
import type { Admissions } from '../core/admissions.ts';
import type { Directory } from '../core/directory.ts';
import type { MailUse } from '../core/mail-use.ts';
import type { RelaySettings } from '../core/facts.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Committer } from './committer.ts';
import type { EngineObserver } from './observer.ts';
import type { QueueFaults } from './queue-faults.ts';
import type { QueueMigrations } from './queue-migrations.ts';
import type { QueueReadiness } from './queue-readiness.ts';

export interface EngineParts {
  store: RelayStore;
  committer: Committer;
  settings: RelaySettings;
  /** The relay's own key. */
  signer: Signer;
  directory: Directory;
  admissions: Admissions;
  mail: MailUse;
  queues: QueueReadiness;
  migrations: QueueMigrations;
  faults: QueueFaults;
  observer: EngineObserver;
  monotonicMs: () => number;
}
