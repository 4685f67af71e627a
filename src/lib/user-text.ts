/** Text of a user: files, standard input, output of programs. A byte that is no UTF-8 never becomes U+FFFD. */
import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';

/** The bytes are no text. It has a code, as errors of the system have: who cannot read a file says the same of both. */
export class NotUtf8 extends Error {
  readonly code = 'NOT_UTF8';
}

/** The text has more bytes than it may have. It has a code, as `NotUtf8` has. */
export class TextTooLarge extends Error {
  readonly code = 'TOO_LARGE';

  constructor(bytesMax: number) {
    super(`it has more than ${bytesMax} bytes`);
  }
}

/** A byte order mark stays. Throws `NotUtf8`. */
export function utf8Text(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const lines = bytes.toString('latin1').split('\n');
  const at = lines.findIndex((line) => !isUtf8(Buffer.from(line, 'latin1')));
  throw new NotUtf8(`line ${at + 1} is no UTF-8`);
}

/** Throws `NotUtf8`, and errors of the system. */
export function readText(path: string): string {
  return utf8Text(readFileSync(path));
}

/** Reads until the stream ends. Throws `NotUtf8` and `TextTooLarge`, and errors of the stream. */
export async function readAllText(stream: Readable, bytesMax = Infinity): Promise<string> {
  return utf8Text(await buffer(boundedChunks(stream, bytesMax)));
}

async function* boundedChunks(stream: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new TextTooLarge(bytesMax);
    yield chunk;
  }
}
