/** Positions in a text, counted in Unicode code points: the specification's characters. */

/** The index (in code units) that is `count` code points after index `from`; the end of a shorter text. */
export function codeUnitAfter(text: string, count: number, from = 0): number {
  let at = from;
  for (let left = count; left > 0 && at < text.length; left--) at += widthAt(text, at);
  return at;
}

/** The longest run of whole code points from the code unit `from` on that has at most `bytesMax` bytes as UTF-8. */
export function fittingRun(text: string, from: number, bytesMax: number): { end: number; codePoints: number } {
  let end = from;
  let codePoints = 0;
  for (let bytes = 0; end < text.length; codePoints++) {
    bytes += utf8Bytes(text.codePointAt(end) ?? 0);
    if (bytes > bytesMax) break;
    end += widthAt(text, end);
  }
  return { end, codePoints };
}

function widthAt(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}

function utf8Bytes(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}
