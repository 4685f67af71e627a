/**
 * Reads the answer to one HTTP/1.1 request as far as the servers of this package give one: `node:http` takes longer to
 * load than a hook may take. It is strict, as it knows who answers: a body has a plain length or comes in plain chunks,
 * and whatever else comes is refused.
 */

/** What came is no answer that this package gives. */
export class ForeignAnswer extends Error {}

export interface AnswerHead {
  status: number;
  /** By their names in lower case; values of the same name are joined by commas. */
  headers: Readonly<Record<string, string>>;
}

const HEAD_BYTES_MAX = 16 << 10;
const VERSION = 'HTTP/1.1 ';
/** What says that more answers follow (1xx) was not asked for. */
const STATUS_LINE = /^HTTP\/1\.1 (?<status>[2-5]\d\d) [\t\x20-\x7e\x80-\xff]*$/;
const HEADER_LINE = /^(?<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*(?<value>[\t\x20-\x7e\x80-\xff]*?)[\t ]*$/;
const LENGTH = /^\d{1,15}$/;
/** Of a chunk, without extensions. */
const CHUNK_LINE = /^[0-9a-fA-F]{1,8}$/;
const CHUNK_LINE_BYTES_MAX = 8;
const LINE_END_BYTES = 2;
const CR = 0x0d;
const LF = 0x0a;
const NOTHING: Buffer = Buffer.alloc(0);

type State =
  | { type: 'status' }
  | { type: 'header' }
  | { type: 'chunk size' }
  /** The bytes of a body, or of a chunk of it. */
  | { type: 'bytes'; left: number; isChunk: boolean }
  /** The end of a line behind the bytes of a chunk, or behind the chunk of length 0. */
  | { type: 'chunk end'; isLast: boolean }
  | { type: 'whole' };

export class AnswerReader {
  #head: AnswerHead | undefined;
  #state: State = { type: 'status' };
  #status = 0;
  readonly #headers: Record<string, string> = Object.create(null) as Record<string, string>;
  #headBytes = 0;
  /** The beginning of a line. */
  #begun = NOTHING;

  /** Once all of it is there. */
  get head(): AnswerHead | undefined {
    return this.#head;
  }

  /** Whether the body has come to its end. */
  get isWhole(): boolean {
    return this.#state.type === 'whole';
  }

  /** Takes the next bytes, in whatever pieces they come, and returns those of the body. Throws `ForeignAnswer`. */
  read(bytes: Buffer): Buffer[] {
    const body: Buffer[] = [];
    let rest = this.#begun.length === 0 ? bytes : Buffer.concat([this.#begun, bytes]);
    this.#begun = NOTHING;
    while (rest.length > 0) {
      const state = this.#state;
      if (state.type === 'whole') throw new ForeignAnswer('bytes follow the answer');
      if (state.type === 'bytes') {
        const piece = rest.subarray(0, state.left);
        body.push(piece);
        rest = rest.subarray(piece.length);
        state.left -= piece.length;
        if (state.left === 0) this.#state = state.isChunk ? { type: 'chunk end', isLast: false } : { type: 'whole' };
        continue;
      }
      const end = rest.indexOf(LF);
      const line = end === -1 ? rest : rest.subarray(0, end + 1);
      this.#refuseLine(state, line);
      if (end === -1) {
        this.#begun = rest;
        break;
      }
      if (line.at(-2) !== CR) throw new ForeignAnswer('a line ends without a carriage return');
      this.#take(state, line.toString('latin1', 0, line.length - LINE_END_BYTES));
      rest = rest.subarray(line.length);
    }
    return body;
  }

  /** What no rest of this line can mend. */
  #refuseLine({ type }: State, line: Buffer): void {
    if (type === 'status' || type === 'header') {
      if (this.#headBytes + line.length > HEAD_BYTES_MAX) throw new ForeignAnswer('the head is too long');
      const begun = line.toString('latin1', 0, VERSION.length);
      if (type === 'status' && !VERSION.startsWith(begun)) throw new ForeignAnswer('it is no HTTP/1.1');
    } else if (line.length > CHUNK_LINE_BYTES_MAX + LINE_END_BYTES)
      throw new ForeignAnswer('the length of a chunk is too long');
  }

  #take(state: Exclude<State, { type: 'bytes' | 'whole' }>, line: string): void {
    switch (state.type) {
      case 'status':
        this.#headBytes += line.length + LINE_END_BYTES;
        this.#status = Number(matched(STATUS_LINE, line)['status']);
        this.#state = { type: 'header' };
        return;
      case 'header':
        this.#headBytes += line.length + LINE_END_BYTES;
        if (line === '') this.#endHead();
        else this.#takeHeader(line);
        return;
      case 'chunk size': {
        if (!CHUNK_LINE.test(line)) throw new ForeignAnswer('the length of a chunk is none');
        const left = Number.parseInt(line, 16);
        this.#state = left === 0 ? { type: 'chunk end', isLast: true } : { type: 'bytes', left, isChunk: true };
        return;
      }
      case 'chunk end':
        if (line !== '') throw new ForeignAnswer('a chunk is longer than it says, or trailers follow');
        this.#state = state.isLast ? { type: 'whole' } : { type: 'chunk size' };
    }
  }

  #takeHeader(line: string): void {
    const { name = '', value = '' } = matched(HEADER_LINE, line);
    const key = name.toLowerCase();
    const before = this.#headers[key];
    this.#headers[key] = before === undefined ? value : `${before}, ${value}`;
  }

  #endHead(): void {
    // Repeated, they are joined by a comma, and so are neither of the two.
    const { 'content-length': length, 'transfer-encoding': encoding } = this.#headers;
    if (encoding === 'chunked' && length === undefined) this.#state = { type: 'chunk size' };
    else if (encoding === undefined && length !== undefined && LENGTH.test(length)) {
      const left = Number(length);
      this.#state = left === 0 ? { type: 'whole' } : { type: 'bytes', left, isChunk: false };
    } else throw new ForeignAnswer('the length of the body is not told in one of the two ways');
    this.#head = { status: this.#status, headers: this.#headers };
  }
}

function matched(pattern: RegExp, line: string): Readonly<Record<string, string | undefined>> {
  const groups = pattern.exec(line)?.groups;
  if (!groups) throw new ForeignAnswer('a line of the head is malformed');
  return groups;
}
