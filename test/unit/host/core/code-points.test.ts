import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { codeUnitAfter, fittingRun } from '../../../../src/host/core/code-points.ts';
import { replySubject } from '../../../../src/host/mail/send.ts';

const text = fc.string({ unit: fc.constantFrom('a', 'é', '語', '😀'), maxLength: 30 });

test('a place in code points is the same place in code units', () => {
  fc.assert(
    fc.property(text, fc.nat(35), (given, count) => {
      const points = Array.from(given);
      expect(given.slice(0, codeUnitAfter(given, count))).toBe(points.slice(0, count).join(''));
    }),
  );
});

test('runs that fit follow each other, each the longest, none with half a code point', () => {
  fc.assert(
    fc.property(text, fc.integer({ min: 4, max: 20 }), (given, bytesMax) => {
      const runs: string[] = [];
      for (let from = 0; from < given.length; ) {
        const { end, codePoints } = fittingRun(given, from, bytesMax);
        const run = given.slice(from, end);
        expect(Array.from(run)).toHaveLength(codePoints);
        const next = end < given.length ? String.fromCodePoint(given.codePointAt(end)!) : 'a'.repeat(bytesMax);
        expect(Buffer.byteLength(run)).toBeLessThanOrEqual(bytesMax);
        expect(Buffer.byteLength(run + next)).toBeGreaterThan(bytesMax);
        runs.push(run);
        from = end;
      }
      expect(runs.join('')).toBe(given);
      expect(runs.every((run) => run.isWellFormed())).toBe(true);
    }),
  );
});

test('a place behind the end of a text is its end', () => {
  expect([codeUnitAfter('ab', 2), codeUnitAfter('ab', 5), codeUnitAfter('a😀', 9)]).toEqual([2, 2, 3]);
});

test.each([
  ['\u007f', 1],
  ['\u0080', 2],
  ['\u07ff', 2],
  ['\u0800', 3],
  ['\uffff', 3],
  ['\u{10000}', 4],
])('%j has %i bytes and is one character', (character, bytes) => {
  expect(fittingRun(character, 0, bytes)).toEqual({ end: character.length, codePoints: 1 });
  expect(fittingRun(character, 0, bytes - 1)).toEqual({ end: 0, codePoints: 0 });
  expect(codeUnitAfter(`${character}a`, 1)).toBe(character.length);
});

test('the subject of a reply is cut at its bound, by characters', () => {
  expect(replySubject('😀'.repeat(9), 6)).toBe('Re: 😀😀');
});

test.each([
  ['Build', 'Re: Build'],
  ['Re: Build', 'Re: Build'],
  ['RE:Build', 'Re: Build'],
  ['Regarding', 'Re: Regarding'],
  ['Re:', 'Re: '],
])('the subject of a reply to %j is %j', (subject, expected) => {
  expect(replySubject(subject, 200)).toBe(expected);
});
