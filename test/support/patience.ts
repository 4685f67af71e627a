/**
 * A test waits this long for what must come. What comes ends the wait; only what never comes takes so long, so it is
 * long enough for a machine whose cores are all busy, and below the time limit of a test (vitest.config.ts).
 */
export const PATIENCE_MS = 60_000;
