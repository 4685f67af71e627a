/** Many events in a moment become few calls. */
import { expect, test } from 'vitest';
import { coalesce } from '../../../src/web/shared/coalesce.ts';
import { ManualTimers } from '../../support/manual-time.ts';

test('the first event is followed at once, those of the time after it once, and a later one at once again', () => {
  const timers = new ManualTimers();
  let calls = 0;
  const event = coalesce(
    () => void calls++,
    300,
    (work, ms) => timers.after(ms, work),
  );
  event();
  expect(calls).toBe(1);
  for (let time = 0; time < 20; time++) event();
  timers.pass(299);
  expect(calls).toBe(1);
  timers.pass(1);
  expect(calls).toBe(2);
  // What comes after that rests, too.
  event();
  expect(calls).toBe(2);
  timers.pass(300);
  expect(calls).toBe(3);
  timers.pass(300);
  event();
  expect(calls).toBe(4);
});
