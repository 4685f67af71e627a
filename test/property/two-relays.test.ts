/**
 * Two senders, two receivers and two relays under the rules of the core, in random interleavings with every trouble of
 * support/two-relays/model-world.ts: nothing twice in a mailbox, each message there or its sender told, order kept,
 * nothing left open, no "expired" while a relay has it, and all delivered with nobody alerted while one relay works.
 * The controls take rules away, and a check or the time that messages take shows each.
 */
import { describe, expect, test } from 'vitest';
import type { Break } from '../support/two-relays/model-host.ts';
import { type Played, play } from '../support/two-relays/model-world.ts';
import { IS_REST, IS_THOROUGH, share, tried } from '../support/thorough.ts';

const MODES = 6;
/** `npm test` plays more than its share: six modes, and troubles that are rare in each. */
const SHORT_RUNS = 25;
const RUNS = IS_THOROUGH ? share(1000) : SHORT_RUNS;
const RUNS_A_TEST = 25;
const FIRST = IS_REST ? SHORT_RUNS : 0;
const firsts = Array.from({ length: Math.ceil((RUNS - FIRST) / RUNS_A_TEST) }, (_, at) => FIRST + at * RUNS_A_TEST);

test.each(firsts)('messages over two relays: the runs from %i on', (first) => {
  const counts = { sent: 0, delivered: 0, copies: 0 };
  for (let seed = first; seed < first + RUNS_A_TEST; seed++) {
    const played = play(seed);
    expect([seed, ...played.faults]).toEqual([seed]);
    for (const name of ['sent', 'delivered', 'copies'] as const) counts[name] += played.counts[name];
  }
  // A world in which little arrives, or nothing is ever at two relays, shows nothing.
  expect(counts.delivered).toBeGreaterThan(counts.sent * 0.8);
  expect(counts.copies).toBeGreaterThan(counts.sent * 0.1);
  tried(`${counts.sent} messages over two relays`);
});

/** Runs of one mode. */
function* runsOf(mode: number, count: number, broken: readonly Break[], steps?: number, first = 0): Generator<Played> {
  for (let run = first; run < first + count; run++) yield play(run * MODES + mode, broken, steps);
}

/** The mean time until a message is confirmed while a relay lies. */
function meanMs(broken: readonly Break[]): number {
  const counts = [...runsOf(4, 4, broken)].map((played) => played.counts);
  const sum = (name: 'underLies' | 'underLiesMs'): number => counts.reduce((all, one) => all + one[name], 0);
  return sum('underLiesMs') / sum('underLies');
}

describe('without a rule', () => {
  /** The runs until a check notices it take seconds; with the rule there are none in thousands. */
  const RUNS_MAX = 120;

  /** The search begins where one is known. */
  test.each<[string, Break[], { mode: number; steps?: number; first?: number }, RegExp]>([
    ['earlier messages go ahead', ['order'], { mode: 5 }, /^out of order/],
    ['a known id is delivered once', ['dedup'], { mode: 1 }, /^doubled/],
    [
      'one relay’s notice ends nothing that another has',
      ['notice'],
      { mode: 1 },
      /^told "expired" while a relay has it/,
    ],
    ['an old only copy gets a second one', ['second'], { mode: 4 }, /^(alerted|not delivered) though one relay worked/],
    ['a receipt goes to each relay that brought a copy', ['each'], { mode: 4 }, /^alerted though one relay worked/],
    ['a relay is left behind its shut door', ['door', 'second'], { mode: 5 }, /^not delivered though one relay worked/],
    [
      'a relay that is down is no lane',
      ['down'],
      { mode: 0, first: 24 },
      /^(alerted|not delivered) though one relay worked/,
    ],
    [
      'what an unheard relay has goes elsewhere',
      ['unheard', 'second', 'order'],
      { mode: 0, steps: 5000 },
      /^(alerted|not delivered) though one relay worked/,
    ],
  ])('that %s, a check says so', (_rule, broken, { mode, steps, first }, fault) => {
    const isNoticed = ({ faults }: Played): boolean => faults.some((one) => fault.test(one));
    let isCaught = false;
    for (const played of runsOf(mode, RUNS_MAX, broken, steps, first)) if ((isCaught = isNoticed(played))) break;
    expect(isCaught).toBe(true);
  });

  test('that a relay which swallows is doubted, messages are confirmed much later', () => {
    expect(meanMs(['doubt'])).toBeGreaterThan(meanMs([]) * 1.2);
  });
});
