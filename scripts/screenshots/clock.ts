/** The time of the pictures: it stands still, and goes on when the script says so. */
import { ManualClock } from '../../test/support/manual-time.ts';

const MINUTE_MS = 60_000;

/** When the pictures are taken. */
export const NOW_MS = Date.UTC(2026, 10, 12, 15, 30);

/** While something is done no time passes: how long a write took would be another picture each time. */
export const clock = new ManualClock();

/** From now on this process lives at the time of the pictures, so many minutes before they are taken. */
export function liveAt(minutesBefore: number): void {
  clock.wallMs = NOW_MS - minutesBefore * MINUTE_MS;
  Date.now = () => clock.wallMs;
}
