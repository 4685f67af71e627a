import * as fc from 'fast-check';

/**
 * Code points that stand in a text alone, so every character but halves of pairs. fast-check's own `unit: 'binary'` has
 * the same ones, and takes a second of each process to make.
 */
const character = fc.oneof(fc.nat(0xd7ff), fc.integer({ min: 0xe000, max: 0x10_ffff })).map(
  (point) => String.fromCodePoint(point),
  (text) => {
    const [point, ...more] = Array.from(text as string, (one) => one.codePointAt(0));
    // Says to fast-check which of its words that programs stumble over are texts of these.
    if (point === undefined || more.length > 0) throw new Error('no single character');
    return point;
  },
);

/** Any text that UTF-8 can carry, and often one that programs stumble over, such as `__proto__`. */
export function anyText(lengths: { minLength?: number; maxLength?: number } = {}): fc.Arbitrary<string> {
  return fc.string({ ...lengths, unit: character });
}
