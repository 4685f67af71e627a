/** The times between requests to a relay, and the pauses after one that failed. */

export interface RelayTiming {
  /** The pause after the first failure, and the longest. */
  pauseFirstMs: number;
  pauseMaxMs: number;
  /** Between pulls where the relay does not hold an empty page back. */
  pollMs: number;
  /** The time that a pull asks the relay to wait. */
  waitSeconds: number;
  /** Between two pulls from a home that is neither the first nor the second, while those two can be used. */
  homeMs: number;
  /** Between two pulls from a guest: while it has mail of the last hour, while it has any, and else. */
  guestSoonMs: number;
  guestMs: number;
  guestIdleMs: number;
  /** Between two looks at its log; while something is to be confirmed; and after what a look is owed for. */
  lookMs: number;
  lookSoonMs: number;
  lookSettleMs: number;
}
/** The config of a host may say otherwise (daemon.ts). */
export const RELAY_TIMING: RelayTiming = {
  pauseFirstMs: 1_000,
  pauseMaxMs: 300_000,
  pollMs: 15_000,
  waitSeconds: 25,
  homeMs: 60_000,
  guestSoonMs: 15_000,
  guestMs: 600_000,
  guestIdleMs: 3_600_000,
  lookMs: 600_000,
  lookSoonMs: 60_000,
  lookSettleMs: 5_000,
};
/**
 * The longest pause while this host has other relays: who sees that this one is back writes to it again, and that mail
 * waits here until this host sees it too.
 */
export const PAUSE_OF_SEVERAL_MAX_MS = 15_000;
