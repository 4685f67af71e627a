/** One run at a time, no error that ends anything, and a stop that waits. */
import { expect, test } from 'vitest';
import {
  PeriodicTask,
  type PeriodicTaskOptions,
  stopSignal,
  SingleFlightTask,
} from '../../../src/lib/periodic-task.ts';
import { deferred } from '../../support/deferred.ts';
import { ManualTimers } from '../../support/manual-time.ts';

function taskOf(options: Pick<PeriodicTaskOptions, 'work'> & Partial<PeriodicTaskOptions>) {
  const timers = new ManualTimers();
  const errors: unknown[] = [];
  const task = new PeriodicTask({ timers, everyMs: 100, onError: (error) => errors.push(error), ...options });
  return { task, timers, errors };
}

test('work runs first after its own time and then in every interval', () => {
  let runs = 0;
  const { timers } = taskOf({ firstAfterMs: 10, work: () => void runs++ });
  timers.pass(9);
  expect(runs).toBe(0);
  timers.pass(1);
  expect(runs).toBe(1);
  timers.pass(300);
  expect(runs).toBe(4);
});

test('a tick and a call during a run join it', async () => {
  const gates = [deferred(), deferred()];
  let runs = 0;
  const { task, timers } = taskOf({ work: () => gates[runs++]?.promise });
  const first = task.run();
  timers.pass(500);
  expect(task.run()).toBe(first);
  expect(runs).toBe(1);
  gates[0]?.resolve();
  await first;
  timers.pass(100);
  expect(runs).toBe(2);
  gates[1]?.resolve();
  await task.stop();
});

test('calls for a whole run during a run share one run after it', async () => {
  const gates = [deferred(), deferred()];
  let runs = 0;
  const { task } = taskOf({ work: () => gates[runs++]?.promise });
  const first = task.rerun();
  const second = task.rerun();
  expect(task.rerun()).toBe(second);
  expect(runs).toBe(1);
  gates[0]?.resolve();
  await first;
  await Promise.resolve();
  expect(runs).toBe(2);
  gates[1]?.resolve();
  await second;
  expect(runs).toBe(2);
});

test('a whole run that was asked for does not begin after the stop', async () => {
  const gate = deferred();
  let runs = 0;
  const { task } = taskOf({
    work: () => {
      runs++;
      return gate.promise;
    },
  });
  void task.run();
  const second = task.rerun();
  const stopped = task.stop();
  gate.resolve();
  await Promise.all([second, stopped]);
  expect(runs).toBe(1);
});

test('an error is reported, and the next run comes all the same', async () => {
  let runs = 0;
  const { task, timers, errors } = taskOf({
    work: () => {
      runs++;
      if (runs === 1) throw new Error('at once');
      return Promise.reject(new Error('later'));
    },
  });
  timers.pass(100);
  await task.run();
  timers.pass(100);
  await task.run();
  expect(errors.map((error) => (error as Error).message)).toEqual(['at once', 'later', 'later']);
});

test('other work waits for the run under way, and no run begins during it', async () => {
  const [run, other] = [deferred(), deferred()];
  const begun: string[] = [];
  const { task, timers } = taskOf({
    work: () => {
      begun.push('run');
      return run.promise;
    },
  });
  timers.pass(100);
  const ended = task.runOther(() => {
    begun.push('other');
    return other.promise;
  });
  expect(begun).toEqual(['run']);
  run.resolve();
  await expect.poll(() => begun).toEqual(['run', 'other']);
  timers.pass(100);
  expect(begun).toEqual(['run', 'other']);
  other.resolve();
  await ended;
});

test('a stop aborts the work, waits for it, reports none of its errors, and lets no other begin', async () => {
  let runs = 0;
  let hasEnded = false;
  const { task, timers, errors } = taskOf({
    work: async (signal) => {
      runs++;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      hasEnded = true;
      throw new Error('the end of it');
    },
  });
  timers.pass(100);
  await task.stop();
  expect(hasEnded).toBe(true);
  timers.pass(1000);
  await task.run();
  expect([runs, errors]).toEqual([1, []]);
});

test('a stop signal is aborted by the signal behind it, and while its condition holds', () => {
  const stopped = new AbortController();
  let isForbidden = true;
  const signal = stopSignal(stopped.signal, () => isForbidden);
  expect(signal.aborted).toBe(true);
  isForbidden = false;
  expect(signal.aborted).toBe(false);
  stopped.abort();
  expect(signal.aborted).toBe(true);
});

test('a report that fails stops nothing: each rerun is a run of its own', async () => {
  let runs = 0;
  const task = new SingleFlightTask({
    work: async () => {
      runs++;
      await Promise.resolve();
      throw new Error('the work failed');
    },
    onError: () => {
      throw new Error('the report failed');
    },
  });
  await Promise.all([task.run(), task.rerun()]);
  expect(runs).toBe(2);
  await Promise.all([task.run(), task.rerun()]);
  expect(runs).toBe(4);
});
