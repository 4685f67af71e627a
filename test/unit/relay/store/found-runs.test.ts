import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FoundRuns } from '../../../../src/relay/store/found-runs.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';

const BOB = bob.key;
const CAROL = carol.key;

describe('where the rows of a queue lie', () => {
  it('a row between the first one and the bound of a run is in that run or nowhere', () => {
    const found = new FoundRuns();
    found.note(BOB, 10, 20);
    expect([9, 10, 15, 20, 21].map((seq) => found.boundOf(BOB, seq))).toEqual([undefined, 20, 20, 20, undefined]);
    expect(found.boundOf(CAROL, 15)).toBeUndefined();
  });

  it('behind the last run lies nothing, until a run is written there', () => {
    const found = new FoundRuns();
    found.noteEnd(BOB, 30);
    expect([29, 30, 31].map((seq) => found.boundOf(BOB, seq))).toEqual([undefined, 'none', 'none']);
    found.note(BOB, 40, 50);
    expect(found.boundOf(BOB, 30)).toBeUndefined();
    found.noteEnd(BOB, 30);
    expect([29, 30, 45].map((seq) => found.boundOf(BOB, seq))).toEqual([undefined, 50, 50]);
  });

  it('a look that passes over a run which is gone says that its rows are nowhere', () => {
    const found = new FoundRuns();
    found.note(BOB, 10, 20);
    // The run of 10 to 20 is gone from the store, and the next one behind 5 is that of 30.
    found.note(BOB, 5, 30);
    expect([5, 20, 21, 30].map((seq) => found.boundOf(BOB, seq))).toEqual([20, 20, 30, 30]);
  });

  it('those that were used longest ago go first', () => {
    const found = new FoundRuns(2);
    found.note(BOB, 1, 1);
    found.note(BOB, 2, 2);
    found.boundOf(BOB, 1);
    found.note(CAROL, 3, 3);
    expect([found.boundOf(BOB, 1), found.boundOf(BOB, 2), found.boundOf(CAROL, 3)]).toEqual([1, undefined, 3]);
    for (const target of [BOB, CAROL, alice.key]) found.noteEnd(target, 9);
    expect([BOB, CAROL, alice.key].map((target) => found.boundOf(target, 9))).toEqual([undefined, undefined, 'none']);
  });

  it('property: after a look there is an answer, and it never names a run that lacks a row which is stored', () => {
    const step = fc.oneof(
      fc.record({ what: fc.constant('write' as const), rows: fc.integer({ min: 1, max: 4 }), gap: fc.nat(3) }),
      fc.record({ what: fc.constant('drop' as const), at: fc.nat(60) }),
      fc.record({ what: fc.constant('ask' as const), at: fc.nat(60) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 2, max: 40 }), (steps, max) => {
        const found = new FoundRuns(max);
        /** Rows by the bound of their run. */
        const runs = new Map<number, number[]>();
        const wrong: unknown[] = [];
        let head = 0;
        for (const one of steps) {
          if (one.what === 'write') {
            const first = head + 1 + one.gap;
            const rows = Array.from({ length: one.rows }, (_none, at) => first + at);
            head = first + one.rows - 1;
            runs.set(head, rows);
            found.note(BOB, first, head);
          } else if (one.what === 'drop') {
            for (const [bound, rows] of runs) {
              const left = rows.filter((seq) => seq !== one.at);
              if (left.length === 0) runs.delete(bound);
              else runs.set(bound, left);
            }
          } else {
            if (found.boundOf(BOB, one.at) === undefined) {
              const bound = [...runs.keys()].toSorted((a, b) => a - b).find((at) => at >= one.at);
              if (bound === undefined) found.noteEnd(BOB, one.at);
              else found.note(BOB, one.at, bound);
            }
            const answer = found.boundOf(BOB, one.at);
            const holder = [...runs].find(([, rows]) => rows.includes(one.at))?.[0];
            if (answer === undefined || (holder !== undefined && answer !== holder)) wrong.push([one.at, answer]);
          }
        }
        expect(wrong).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});
