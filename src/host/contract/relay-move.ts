/** Inputs and results of the operations that move this host from one relay to another. */
import { type Static, Type } from 'typebox';
import { Count, ExactMoment, orNull, PublicKeyText } from '../../protocol/shapes.ts';
import { MOVE_STATES } from '../core/relay-move.ts';
import { PinnedRelay, RelaySetInput, RelaySetResult } from './relays.ts';

const MovedRelay = Type.Object({ url: Type.String(), relay_pubkey: PublicKeyText, fingerprint: Type.String() });

export const RelayMoveView = Type.Object({
  state: Type.Enum([...MOVE_STATES]),
  /** The relay that is left, and the one that takes its place. */
  from: MovedRelay,
  to: MovedRelay,
  started_at: ExactMoment,
  /** The time at which the state began. */
  since: ExactMoment,
  /** Paired hosts that have not shown that they know what this host says of its relays now, by name. */
  waiting_for: Type.Array(Type.String()),
  /** The hosts whose owners were told in a message, by name. */
  written_to: Type.Array(Type.String()),
  /** Messages that the old relay has, as far as this host knows, and that no host has confirmed. */
  held: Count,
  /** The time at which the last item came at the old relay since it began to be left. */
  last_item_at: orNull(ExactMoment),
  /** The time that takes it further if nothing else does. */
  next_at: orNull(ExactMoment),
});
export type RelayMoveView = Static<typeof RelayMoveView>;

export const RelayMoveInput = Type.Object({
  ...RelaySetInput.properties,
  /** Answers which relay it would be, and changes nothing. */
  dry_run: Type.Optional(Type.Boolean()),
});
export type RelayMoveInput = Static<typeof RelayMoveInput>;

export const RelayMoveStarted = Type.Object({
  /** The new relay. */
  relay: PinnedRelay,
  trust: RelaySetResult.properties.trust,
  from: MovedRelay,
  /** Null when the input says `dry_run`. */
  move: orNull(RelayMoveView),
});
export type RelayMoveStarted = Static<typeof RelayMoveStarted>;

/** The move that is under way, or the last one. */
export const RelayMoveStatus = Type.Object({ move: orNull(RelayMoveView) });
export type RelayMoveStatus = Static<typeof RelayMoveStatus>;

/** `move`: as it was when it ended. `kept`: says whether the new relay is still used. */
export const RelayMoveCancelled = Type.Object({ move: RelayMoveView, kept: Type.Boolean() });
export type RelayMoveCancelled = Static<typeof RelayMoveCancelled>;
