/** Why a store cannot be opened: one sentence for the operator, with the next step. Never holds key material. */

export type RefusedReason =
  | 'locked'
  | 'missing'
  | 'foreign-key'
  | 'missing-key'
  | 'unreadable-key'
  | 'newer-schema'
  | 'damaged'
  | 'unusable';

export class StoreRefused extends Error {
  readonly reason: RefusedReason;

  constructor(reason: RefusedReason, message: string) {
    super(message);
    this.reason = reason;
  }
}
