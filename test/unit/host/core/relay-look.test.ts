/** A look at a relay's log: one test for each case, named after it. */
import { describe, expect, test } from 'vitest';
import { NEW_TRUST } from '../../../../src/host/core/relay-trust.ts';
import { KNEW_NOTES_MAX, noteHash } from '../../../../src/protocol/seen.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { SmallLog } from '../../../support/small-log.ts';
import {
  NEW_EPOCH,
  type Otherwise,
  OF_BEFORE,
  REFUSED,
  given,
  keptOf,
  knowing,
  refusing,
  shown,
} from '../../../support/trust/given-look.ts';

const [E1, E2, E3, E4] = [epochNumbered(1), epochNumbered(2), epochNumbered(3), epochNumbered(4)];
const log = new SmallLog(E1).append('a', 'b', 'c', 'd');
/** The first three leaves of `log`, and others. */
const fork = log.copy(3).append('C', 'D');

test('the first look keeps the newest head', () => {
  const looked = given({ ...knowing(), trust: NEW_TRUST }).when(shown(log));
  expect(looked.asked).toEqual(['head']);
  expect(looked.outcome).toMatchObject({ isEnded: true, isOwed: false, evidence: [], pushAgain: false });
  expect(looked.newest).toMatchObject({ epoch: E1, size: 5 });
  expect(looked.trust).toMatchObject({ current: E1, givesAfter: true, ownNotes: [{ epoch: E1 }] });
});

test('a question that is not answered ends nothing: nothing is changed, and the look stays owed', () => {
  const state = knowing(keptOf(log, 3));
  for (const asked of ['head', 'consistency', 'headAt'] as const) {
    const looked = given(state).when(shown(log), ({ ask }) => {
      if (ask === asked) return { type: 'none' };
      return asked === 'headAt' && ask === 'consistency' ? REFUSED : undefined;
    });
    expect(looked.outcome).toMatchObject({ isEnded: false, isOwed: true, evidence: [], pushAgain: false });
    expect(looked.trust).toBe(state.trust);
    expect(looked.outcome.kept).toBe(state.kept);
  }
});

describe('without the `after` that was asked', () => {
  test('a note of a relay that gave it before is of a cache, and no look; the third is of a relay of before', () => {
    const cached = { ...shown(log), givesAfter: false };
    const first = given(knowing(keptOf(log, 3))).when(cached);
    expect(first.outcome).toMatchObject({ isOwed: true, evidence: [], kept: [{ size: 3 }] });
    const second = first.later(10).when(cached);
    expect(second.newest).toMatchObject({ size: 3 });
    const third = second.later(10).when(cached);
    expect(third.newest).toMatchObject({ size: 5, knew: null });
    expect(third.trust.givesAfter).toBe(false);
  });

  test('the first notes of a relay of before are looked at', () => {
    const state = knowing(keptOf(log, 3));
    const trust = { ...state.trust, givesAfter: false };
    expect(given({ ...state, trust }).when({ ...shown(log), givesAfter: false }).newest).toMatchObject({ size: 5 });
  });
});

describe('same epoch, same size', () => {
  test('equal roots: the later note is kept', () => {
    const looked = given(knowing(keptOf(log))).when(shown(log));
    expect(looked.words).toEqual([]);
    expect(looked.newest?.note).not.toBe(log.note());
  });

  test('another root is a fork, and all is pushed again', () => {
    const looked = given(knowing(keptOf(log))).when(shown(fork));
    expect(looked.words).toEqual(['fork!']);
    expect(looked.outcome).toMatchObject({ pushAgain: true, kept: [fork.end()] });
    expect(looked.outcome.evidence[0]?.notes.map(({ note }) => note)).toEqual([log.note(), looked.newest?.note]);
  });
});

describe('same epoch, larger', () => {
  test('with a proof of consistency the new head is kept', () => {
    const looked = given(knowing(keptOf(log, 3))).when(shown(log));
    expect(looked.asked).toEqual(['head', 'consistency']);
    expect(looked.outcome).toMatchObject({ isOwed: false, kept: [{ size: 5 }] });
  });

  test('without one the relay is asked for the smaller head: with another root that is a fork', () => {
    const looked = given(knowing(keptOf(log, 4))).when(shown(fork));
    expect(looked.asked).toEqual(['head', 'consistency', 'headAt', 'show']);
    expect(looked.words).toEqual(['fork!']);
    expect(looked.outcome.evidence[0]?.notes).toMatchObject([{ note: log.note(4) }, { note: fork.note(4) }]);
    expect(looked.outcome).toMatchObject({ pushAgain: true, kept: [{ size: 5 }] });
  });

  test('with neither it is unproven at the third look, and only then the new head is kept', () => {
    const liar = { ...shown(fork), otherwise: refusing('consistency', 'headAt') };
    const first = given(knowing(keptOf(log, 4))).when(liar);
    expect([first.words, first.newest?.size, first.outcome.isOwed]).toEqual([[], 4, true]);
    const second = first.later(10).when(liar);
    expect([second.words, second.newest?.size]).toEqual([[], 4]);
    const third = second.later(10).when(liar);
    expect(third.words).toEqual(['unproven']);
    expect(third.outcome).toMatchObject({ pushAgain: true, kept: [{ size: 5 }] });
  });
});

describe('same epoch, smaller', () => {
  const small = log.copy(3);

  const consistent: Otherwise = ({ ask }) =>
    ask === 'consistency' ? { type: 'answer', document: log.consistency(3, 5) } : undefined;

  test('when it proves that the kept note continues it, the answer is only old', () => {
    const looked = given(knowing(keptOf(log))).when(shown(small), consistent);
    expect(looked.outcome).toMatchObject({ isOwed: true, isSoon: false, evidence: [], kept: [{ size: 5 }] });
    expect(looked.trust.back).toBeNull();
  });

  test('an old answer that the relay signs as its newest at three looks is set back unsaid', () => {
    const second = given(knowing(keptOf(log)))
      .when(shown(small), consistent)
      .later(10)
      .when(shown(small), consistent);
    expect([second.words, second.newest?.size]).toEqual([[], 5]);
    expect(second.later(10).when(shown(small), consistent).words).toEqual(['set-back-unsaid!']);
    const before = { ...shown(small), givesAfter: false };
    const state = knowing(keptOf(log));
    let looked = given({ ...state, trust: { ...state.trust, givesAfter: false } }).when(before, consistent);
    for (let nth = 0; nth < 4; nth++) looked = looked.later(10).when(before, consistent);
    expect([looked.words, looked.newest?.size]).toEqual([[], 5]);
  });

  test('otherwise it is looked at once more after a minute, and the relay is shown the kept note', () => {
    const first = given(knowing(keptOf(log))).when(shown(small));
    expect(first.outcome).toMatchObject({ isSoon: true, evidence: [], kept: [{ size: 5 }] });
    expect(first.asked).toEqual(['head', 'consistency']);
    const second = first.later(1).when(shown(small));
    expect(second.questions.find(({ ask }) => ask === 'show')).toMatchObject({ note: log.note() });
  });

  test('when it then begins a new epoch nothing is said but what the link says', () => {
    const state = knowing(keptOf(log));
    const begins = {
      ...shown(small),
      otherwise: ({ ask }: { ask: string }) => (ask === 'show' ? NEW_EPOCH : undefined),
    };
    const second = given(state).when(begins).later(1).when(begins);
    expect(second.outcome).toMatchObject({ isSoon: true, evidence: [], pushAgain: false, kept: [{ size: 5 }] });
    const third = second.later(1).when(shown(small, small.next(E2)));
    expect(third.words).toEqual([]);
    expect(third.outcome).toMatchObject({ setBack: { epoch: E1, signed: 5, goesOnFrom: 3 }, pushAgain: false });
  });

  test('when it says so and does not, that is said', () => {
    const says = { ...shown(small), otherwise: ({ ask }: { ask: string }) => (ask === 'show' ? NEW_EPOCH : undefined) };
    const third = given(knowing(keptOf(log)))
      .when(says)
      .later(1)
      .when(says)
      .later(1)
      .when(says);
    expect(third.words).toEqual(['set-back-unsaid!']);
  });

  test('when it does not it was set back unsaid: all is pushed again, and the smaller head is kept', () => {
    const second = given(knowing(keptOf(log)))
      .when(shown(small))
      .later(1)
      .when(shown(small));
    expect(second.words).toEqual(['set-back-unsaid!']);
    expect(second.outcome).toMatchObject({ pushAgain: true, kept: [{ size: 3 }] });
    expect(second.outcome.evidence[0]?.notes.map(({ note }) => note)).toEqual([log.note(), second.newest?.note]);
  });

  test('the note that it went behind is joined when the log has outgrown it: then mostly a fork', () => {
    const second = given(knowing(keptOf(log)))
      .when(shown(small))
      .later(1)
      .when(shown(small));
    const third = second.later(10).when(shown(small.copy().append('C')));
    expect([third.words, third.trust.beyond.length]).toEqual([[], 1]);
    const fourth = third.later(10).when(shown(small.copy().append('C', 'D', 'E')));
    expect([fourth.words, fourth.trust.beyond]).toEqual([['fork!'], []]);
    const healed = third.later(10).when(shown(log.copy().append('e')), refusing('show'));
    expect(healed.trust.beyond).toEqual([]);
  });

  test('of a relay of before it is testimony, and said at the third look', () => {
    const before = { ...shown(small), givesAfter: false, otherwise: OF_BEFORE };
    const state = knowing(keptOf(log));
    const first = given({ ...state, trust: { ...state.trust, givesAfter: false } }).when(before);
    const second = first.later(1).when(before);
    expect([second.words, second.newest?.size]).toEqual([[], 3]);
    expect(second.later(10).when(before).later(10).when(before).words).toEqual(['set-back-unsaid']);
  });
});

describe('an epoch that was left is shown again', () => {
  const second = log.next(E2);
  /** The note of the second epoch was signed after one of the first. */
  const first = given(knowing(keptOf(log))).when(shown(log, second));

  test('it is set back unsaid after ten minutes, with the note that shows the order', () => {
    expect(first.trust).toMatchObject({ current: E2, left: [E1] });
    const again = first.later(10).when(shown(log));
    expect([again.words, again.newest?.epoch, again.outcome.isSoon]).toEqual([[], E2, true]);
    expect(again.later(5).when(shown(log)).words).toEqual([]);
    const late = again.later(10).when(shown(log));
    expect(late.words).toEqual(['set-back-unsaid!']);
    expect(late.outcome.evidence[0]?.notes).toMatchObject([
      { note: first.newest?.note },
      { note: late.newest?.note },
      { note: log.note() },
    ]);
    expect(late.trust).toMatchObject({ current: E1, left: [E2], beyond: [] });
    expect(late.outcome.pushAgain).toBe(true);
    expect(late.questions.find(({ ask }) => ask === 'show')).toMatchObject({ older: log.note() });
  });

  test('an epoch of which the relay spoke earlier, and that follows the present one, is a new one', () => {
    const state = knowing(keptOf(log));
    const trust = { ...state.trust, left: [E1, E2] };
    const looked = given({ ...state, trust }).when(shown(log, second));
    expect(looked.trust).toMatchObject({ current: E2, left: [E1] });
  });
});

describe('another epoch', () => {
  const grown = log.copy().append('e', 'f');

  test('its end covers what was kept: joined, and entered', () => {
    const looked = given(knowing(keptOf(log))).when(shown(grown, grown.next(E2)));
    expect(looked.asked).toEqual(['head', 'link', 'consistency']);
    expect(looked.trust).toMatchObject({ current: E2, left: [E1] });
    expect(looked.outcome).toMatchObject({ evidence: [], pushAgain: false, isOwed: false });
    expect(looked.outcome.kept.map(({ epoch }) => epoch)).toEqual([E2, E1]);
  });

  test('the links lead to any kept epoch: two restores of one backup skip the one between', () => {
    const between = log.next(E2).append('x');
    const state = knowing(keptOf(log), keptOf(between));
    const looked = given(state).when(shown(log, log.next(E3)));
    expect(looked.outcome).toMatchObject({ evidence: [], isOwed: false });
    expect(looked.trust.current).toBe(E3);
  });

  test('its end is smaller: declared set back, which is no offence and is said', () => {
    const cut = log.copy(3);
    const looked = given(knowing(keptOf(log))).when(shown(cut, cut.next(E2)));
    expect(looked.outcome).toMatchObject({ setBack: { epoch: E1, signed: 5, goesOnFrom: 3 }, evidence: [] });
    expect(looked.trust.current).toBe(E2);
  });

  test('its end has the size of what was kept, and another root: a fork at once, by the link', () => {
    const looked = given(knowing(keptOf(log))).when(shown(fork, fork.next(E2)));
    expect(looked.words).toEqual(['fork!']);
    expect(looked.outcome.evidence[0]).toMatchObject({
      notes: [{ note: log.note() }, { note: looked.newest?.note }],
      proof: [fork.next(E2).leafAt(0)],
    });
    expect(looked.outcome.pushAgain).toBe(true);
  });

  test('its end does not continue what was kept: a fork, by the head of that size', () => {
    const rewritten = fork.copy().append('x', 'y');
    const looked = given(knowing(keptOf(log))).when(shown(rewritten, rewritten.next(E2)));
    expect(looked.words).toEqual(['fork!']);
    expect(looked.outcome.evidence[0]?.notes).toMatchObject([{ note: log.note() }, { note: rewritten.note(5) }]);
    expect(looked.trust.current).toBe(E2);
  });

  const rewritten = fork.copy().append('x', 'y');
  test.each([
    [
      'its end is not shown to continue what was kept',
      { ...shown(rewritten, rewritten.next(E2)), otherwise: refusing('consistency', 'headAt') },
    ],
    ['its link is refused', { ...shown(log.next(E2)), otherwise: refusing('link') }],
  ])('%s: unproven at the third look, then it is entered', (_what, liar) => {
    const second = given(knowing(keptOf(log)))
      .when(liar)
      .later(10)
      .when(liar);
    expect([second.words, second.trust.current]).toEqual([[], E1]);
    const third = second.later(10).when(liar);
    expect([third.words, third.trust.current]).toEqual([['unproven'], E2]);
  });

  test('a link counts only when it is proven under the head', () => {
    const [real, other] = [log.next(E2).append('x'), fork.next(E2).append('y', 'z')];
    const liar = shown(real);
    const looked = given(knowing(keptOf(log))).when(liar, ({ ask }) =>
      ask === 'link' ? { type: 'answer', document: other.leafAt(0) } : undefined,
    );
    expect([looked.trust.current, looked.outcome.isOwed]).toEqual([E1, true]);
    const grew = given(knowing(keptOf(log))).when(liar, ({ ask }) =>
      ask === 'link' ? { type: 'answer', document: real.copy().append('w').leafAt(0) } : undefined,
    );
    expect(grew.trust.current).toBe(E2);
  });

  test('the chain ends: its log begins anew, which is no offence', () => {
    const looked = given(knowing(keptOf(log))).when(shown(new SmallLog(E4).append('x')));
    expect(looked.trust).toMatchObject({ current: E4, left: [E1] });
    expect(looked.outcome).toMatchObject({ evidence: [], isOwed: false });
  });

  test('32 links lead a look back, the next one goes on, and beyond 1,024 its log begins anew', () => {
    const nights = [log];
    for (let night = 1; night <= 50; night++) nights.push(nights.at(-1)!.next(`N${night}` as typeof E1));
    const first = given(knowing(keptOf(log))).when(shown(...nights));
    expect(first.asked.filter((ask) => ask === 'link')).toHaveLength(32);
    expect([first.trust.current, first.outcome.isSoon, first.trust.walk?.links]).toEqual([E1, true, 32]);
    const second = first.later(1).when(shown(...nights));
    expect([second.trust.current, second.trust.walk]).toEqual(['N50', null]);
    expect(second.asked.filter((ask) => ask === 'link')).toHaveLength(19);
    const far = { ...first.trust, walk: { ...first.trust.walk!, links: 1020 } };
    const third = first.later(1, { trust: far }).when(shown(...nights));
    expect([third.trust.current, third.asked.length]).toEqual(['N50', 6]);
  });
});

test('of eight epochs a note is kept, the newest ones', () => {
  let looked = given(knowing(keptOf(log))).when(shown(log));
  let last = log;
  for (let night = 1; night <= 9; night++) {
    const next = last.next(epochNumbered(10 + night));
    looked = looked.later(10).when(shown(last, next));
    last = next;
  }
  const nights = Array.from({ length: 8 }, (_, nth) => epochNumbered(19 - nth));
  expect(looked.outcome.kept.map(({ epoch }) => epoch)).toEqual(nights);
});

test('`knew` holds four notes: the newest one, what waits for the relay by turns, and earlier epochs', () => {
  const state = knowing(keptOf(log), keptOf(log.next(E2)));
  const [earlier, newest] = state.kept.map(({ note }) => noteHash(note));
  const { knew } = given(state).when(shown(log.next(E2)));
  expect([knew.includes(newest!), knew.includes(earlier!)]).toEqual([true, true]);
  const pending = Array.from({ length: 5 }, (_, nth) => {
    const other = new SmallLog(epochNumbered(20 + nth));
    return { peerId: `peer ${nth}` as never, epoch: other.epoch, note: other.note(), knew: null, atMs: 0 };
  });
  const hashes = pending.map(({ note }) => noteHash(note));
  const seen = new Set<string>();
  for (const looks of [0, 1]) {
    const turn = given({ ...state, pending, trust: { ...state.trust, looks } }).when(shown(log.next(E2)));
    expect(turn.knew).toContain(newest);
    const held = hashes.filter((hash) => turn.knew.includes(hash));
    expect(held).toHaveLength(KNEW_NOTES_MAX - 1);
    for (const hash of held) seen.add(hash);
  }
  expect(seen.size).toBe(5);
});

test('a relay that showed a log and has no such routes any more is refused too', () => {
  const gone = { ...shown(log), otherwise: refusing('head') };
  const third = given(knowing(keptOf(log)))
    .when(gone)
    .later(10)
    .when(gone)
    .later(10)
    .when(gone);
  expect([third.words, third.newest?.size]).toEqual([['unproven'], 5]);
  expect(given({ ...knowing(), trust: NEW_TRUST }).when(gone).outcome).toMatchObject({ isEnded: true, isOwed: false });
});

describe('thrice', () => {
  const liar = { ...shown(fork), otherwise: refusing('consistency', 'headAt') };
  const first = given(knowing(keptOf(log, 4))).when(liar);

  test('looks that follow each other sooner than in ten minutes count once', () => {
    const often = first.later(1).when(liar).later(1).when(liar).later(1).when(liar);
    expect([often.words, often.trust.refused['own']?.times]).toEqual([[], 1]);
  });

  test('a look that was not refused begins anew', () => {
    const grown = log.copy().append('e');
    const second = first.later(10).when(liar).later(10).when(shown(grown));
    expect(second.newest).toMatchObject({ size: 6 });
    expect(second.trust.refused).toEqual({});
  });

  test('a look that did not end counts for nothing', () => {
    const down = first
      .later(10)
      .when(liar, ({ ask }) => (ask === 'headAt' ? { type: 'none' } : liar.otherwise({ ask } as never)));
    expect(down.outcome.isEnded).toBe(false);
    expect(down.later(10).when(liar).words).toEqual([]);
  });
});

describe('push again', () => {
  const kept = knowing(keptOf(log));
  const looking = (pushedAgain: typeof NEW_TRUST.pushedAgain, minutes: number) =>
    given({ ...kept, trust: { ...kept.trust, pushedAgain } })
      .when(shown(log))
      .later(minutes, {
        kept: kept.kept,
        trust: { ...kept.trust, pushedAgain },
      });
  const atMs = kept.kept[0]!.atMs;
  const HOUR_MS = 3_600_000;
  const DAY_MS = 24 * HOUR_MS;

  test('at most once an hour: what is due sooner is done then', () => {
    const last = { atMs, waitMs: HOUR_MS, isDue: false };
    const soon = looking(last, 59).when(shown(fork));
    expect(soon.outcome).toMatchObject({ pushAgain: false, isOwed: true });
    expect(soon.trust.pushedAgain).toEqual({ ...last, isDue: true });
    const then = soon.later(1).when(shown(fork));
    expect(then.words).toEqual([]);
    expect(then.outcome.pushAgain).toBe(true);
    expect(then.trust.pushedAgain).toEqual({ atMs: atMs + HOUR_MS, waitMs: 2 * HOUR_MS, isDue: false });
  });

  test('each within a day doubles the wait, up to a day; after a day it is an hour again', () => {
    const waitMs = (before: number, minutes: number) =>
      looking({ atMs, waitMs: before, isDue: false }, minutes).when(shown(fork)).trust.pushedAgain?.waitMs;
    expect(waitMs(4 * HOUR_MS, 240)).toBe(8 * HOUR_MS);
    expect(waitMs(16 * HOUR_MS, 960)).toBe(DAY_MS);
    expect(waitMs(16 * HOUR_MS, 24 * 60)).toBe(HOUR_MS);
    expect(looking(null, 0).when(shown(fork)).trust.pushedAgain?.waitMs).toBe(HOUR_MS);
  });
});
