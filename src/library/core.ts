/**
 * `poste/core`: what the relay decides and how its log becomes rows, without a disk, a clock or a network.
 *
 * A command is decided by facts that are read from rows (`decide`), a decision is events, and events become changes of
 * rows (`reduce`). `MemoryRelay` does all of it over rows in memory. `poste/core/testing` has a naive model and
 * arbitraries to hold it to.
 */
export { MemoryRelay, decide } from './decide.ts';
export type { DecidableCommand, MemoryRelayOptions } from './decide.ts';
export { MapRows } from './map-rows.ts';
export { reduce } from '../relay/core/reduce.ts';
export { EMPTY_TARGET, NO_USAGE, rowKey } from '../relay/core/rows.ts';
export type { RowChange, RowReader, TableName, Tables } from '../relay/core/rows.ts';
export { BrokenQueue } from '../relay/core/decision.ts';
export type {
  Decided,
  FactSource,
  Outcome,
  PushOutcome,
  Refusal,
  RelaySettings,
} from '../relay/core/decision.ts';
export { describeEvent } from '../relay/core/describe-event.ts';
export type { LogEntry, RelayEvent } from '../relay/core/event.ts';
export type * from '../relay/core/command.ts';
export { DEFAULT_LIMITS } from '../protocol/limits.ts';
export { signerFromSeed } from '../protocol/ed25519.ts';
