/** How a relay does, by what is told of its requests: the clock and the timers are the test's. */
import { describe, expect, test } from 'vitest';
import { LinkHealth, UNHEARD_MS } from '../../../../src/host/relay/link-health.ts';
import { ManualTimers } from '../../../support/manual-time.ts';

class World {
  nowMs = 1_000;
  pauseMs = 0;
  hasSession = true;
  /** How it was when it turned. */
  readonly turns: string[] = [];
  readonly timers = new ManualTimers();
  readonly ended: (() => void)[] = [];
  readonly health: LinkHealth = new LinkHealth({
    monotonicMs: () => this.nowMs,
    timers: this.timers,
    pauseMs: () => this.pauseMs,
    hasSession: () => this.hasSession,
    turned: () => this.turns.push(this.state),
  });

  get state(): string {
    const { isWell, isDown, unheardMs } = this.health;
    return [isWell && 'well', isDown && 'down', unheardMs > 0 && 'unheard'].filter(Boolean).join(' ') || '-';
  }

  pass(seconds: number): void {
    for (let left = seconds; left > 0; left--) {
      this.nowMs += 1000;
      this.pauseMs = Math.max(0, this.pauseMs - 1000);
      this.timers.pass(1000);
    }
  }
}

type Step = (world: World) => void;
const heard: Step = ({ health }) => health.heard();
const fails: Step = ({ health }) => health.failed();
const stops: Step = ({ health }) => health.stopped();
const begins: Step = ({ health }) => health.begin();
const loses: Step = (world) => {
  world.hasSession = false;
  world.health.lost();
};
const enters: Step = (world) => {
  world.hasSession = true;
  world.health.note();
};
const waits =
  (seconds: number): Step =>
  (world) =>
    world.pass(seconds);
const asks =
  (waitSeconds = 0): Step =>
  (world) =>
    void world.ended.push(world.health.asking(waitSeconds * 1000));
const answers: Step = (world) => world.ended.shift()?.();
const pauses =
  (seconds: number): Step =>
  (world) => {
    world.pauseMs = seconds * 1000;
    world.health.note();
  };

describe.each<[string, Step[], string]>([
  ['a relay with a session is well', [], 'well'],
  ['one failure alone changes nothing', [fails], 'well'],
  ['two failures in a row: down', [fails, fails], 'well down'],
  ['two failures, and an answer between them', [fails, heard, fails], 'well'],
  ['an answer ends it', [fails, fails, heard], 'well'],
  ['a request of 9 seconds', [asks(), waits(9)], 'well'],
  ['a request without an answer for 10 seconds: down', [asks(), waits(10)], 'well down'],
  ['its late answer counts', [asks(), waits(15), answers], 'well'],
  ['a pull that asked to wait 25 seconds, after 34', [asks(25), waits(34)], 'well'],
  ['10 seconds more than it asked to wait: down', [asks(25), waits(35)], 'well down'],
  ['what others are answered meanwhile changes nothing', [asks(), waits(10), heard], 'well down'],
  ['no session for 9 seconds', [loses, waits(9)], '-'],
  ['no session for 10 seconds: down', [loses, waits(10)], 'down'],
  ['a session that comes late', [loses, waits(10), enters], 'well'],
  ['a pause', [pauses(5)], '-'],
  ['the end of a pause', [pauses(5), waits(5)], 'well'],
  ['two tries that failed in an hour', [fails, waits(1800), fails, waits(1800)], 'well down'],
  ['three tries that failed: it is not heard', [fails, fails, fails, waits(1)], 'well down unheard'],
  ['an answer after that', [fails, fails, fails, waits(1), heard], 'well'],
  ['another key was shown: nothing is tried, and it is not heard', [stops, waits(1)], 'well down unheard'],
  ['the owner says that it is right', [stops, waits(1), begins], 'well'],
])('given a link, %s', (_name, steps, state) => {
  test(`then it is ${state}`, () => {
    const world = new World();
    for (const step of steps) step(world);
    expect(world.state).toBe(state);
  });
});

test('the time without an answer counts from the last one, and from the start before any', () => {
  const world = new World();
  world.pass(10);
  for (const step of [fails, fails, fails]) step(world);
  expect(world.health.unheardMs).toBe(10_000);
  expect(world.health.heardMs).toBeUndefined();
  heard(world);
  world.pass(7);
  expect([world.health.unheardMs, world.health.heardMs]).toEqual([0, 7_000]);
  for (const step of [fails, fails, fails]) step(world);
  expect(world.health.unheardMs).toBe(7_000);
});

test('a machine that slept tried nothing: no time counts as not heard', () => {
  const world = new World();
  world.nowMs += 3_600_000;
  for (const step of [fails, fails]) step(world);
  expect(world.health.unheardMs).toBe(0);
});

test.each<[string, Step[], string[]]>([
  ['nothing at first', [], []],
  ['that it is well', [loses, enters], ['well']],
  ['nothing twice', [enters, loses, loses, waits(3)], ['well', '-']],
  ['a request that stays without an answer, by the clock', [enters, asks(), waits(30)], ['well', 'well down']],
  ['its answer', [enters, asks(), waits(30), answers], ['well', 'well down', 'well']],
  ['that it has no session for ten seconds, by the clock', [enters, loses, waits(30)], ['well', '-', 'down']],
  ['five minutes without an answer, by the clock', [fails, fails, fails, waits(299)], ['well', 'well down']],
  ['them when they are over', [fails, fails, fails, waits(400)], ['well', 'well down', 'well down unheard']],
  ['the end of a pause, by the clock', [enters, pauses(5), waits(9)], ['well', '-', 'well']],
])('what turned is told once: %s', (_name, steps, turns) => {
  const world = new World();
  for (const step of steps) step(world);
  expect(world.turns).toEqual(turns);
});

test('a link that was closed tells nothing and leaves no timer', () => {
  const world = new World();
  asks()(world);
  fails(world);
  const { turns } = world;
  world.health.close();
  expect(world.timers.count).toBe(0);
  for (const step of [answers, fails, fails, fails]) step(world);
  world.pass(2 * (UNHEARD_MS / 1000));
  expect(world.timers.count).toBe(0);
  expect(world.turns).toBe(turns);
});
