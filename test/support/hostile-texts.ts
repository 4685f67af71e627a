/** Texts that parsers, keys of a store and prototypes have stumbled over. */
export const hostileTexts: readonly string[] = [
  '',
  '\0',
  'a\0b',
  '\ud800',
  '__proto__',
  'constructor',
  '{"__proto__":{"v":1}}',
  '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[',
  '1e400',
  '-0',
  '"\\ud800"',
  '"id":"other",',
  'receipt:::',
  'expired:m:k',
  '../../etc/passwd',
  'x'.repeat(10_000),
];
