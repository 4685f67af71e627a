/**
 * What every operation of the host works with: its store, its clock, its dice, and the bell that says what changed.
 *
 * An operation is a function of the office and its input that resolves, after the commit, to its output or a
 * `Refusal`. It reads and writes inside one transaction and calls the pure core for what is decided.
 */
import type { Signer } from '../../protocol/ed25519.ts';
import type { HostName } from '../../protocol/names.ts';
import type { AgentId, PeerId, SealKey } from '../core/rows.ts';
import type { HostStore } from '../store/host-store.ts';

/** What others may want to know when it is durable. Listeners do not throw and are not waited for. */
export type Happening =
  /** A message came into a mailbox. */
  | { type: 'mail-stored'; agentId: AgentId; position: number; wakes: boolean }
  /** Something of a mailbox was read or acked. */
  | { type: 'mail-handled'; agentId: AgentId }
  /** This agent sent a message, or something was learned of the way of one. */
  | { type: 'sent-changed'; agentId: AgentId }
  /** A session came, or can be woken otherwise than before. */
  | { type: 'session-registered'; agentId: AgentId; sessionId: string }
  /** A session was told what is unread, and shows it to its agent. */
  | { type: 'session-told'; agentId: AgentId; sessionId: string }
  /** A session's hook waits for a doorbell from now on. */
  | { type: 'session-waits'; agentId: AgentId; sessionId: string }
  | { type: 'session-ended'; agentId: AgentId; sessionId: string }
  /** An outbox row waits for this peer, or may be tried again. */
  | { type: 'outbox-changed'; peerId: PeerId }
  | { type: 'peers-changed' }
  /** This host, or its encryption key, goes on under a new one. */
  | { type: 'identity-changed'; identity: Identity };

/** Who this host is now. Replaced as a whole when a key is rotated. */
export interface Identity {
  hostName: HostName;
  signer: Signer;
  sealKey: SealKey;
}

export interface Office {
  store: HostStore;
  identity(): Identity;
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Milliseconds that never go back: how long something took. */
  monotonicMs(): number;
  randomBytes(count: number): Buffer;
  /** Tells whoever listens. Called after the commit. */
  tell(happening: Happening): void;
  /** Told from now on of everything that becomes durable; answers what ends that. */
  listen(listener: (happening: Happening) => void): () => void;
  /** What is said in the daemon's log: never keys, subjects or bodies. */
  log(level: 'info' | 'warn' | 'error', message: string, facts?: Readonly<Record<string, unknown>>): void;
}
