/**
 * `toEqual` compares bytes as bytes: by itself it walks over every index of both arrays, which for the content of a
 * store takes seconds. A setup file imports this, so that each worker has it once.
 */
import { expect } from 'vitest';

expect.addEqualityTesters([
  (a: unknown, b: unknown): boolean | undefined => {
    const areOfOneKind = a instanceof Uint8Array && b instanceof Uint8Array && a.constructor === b.constructor;
    return areOfOneKind ? Buffer.compare(a, b) === 0 : undefined;
  },
]);
