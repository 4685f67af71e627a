/**
 * Reads the answer to one HTTP/1.1 request as the daemon gives it, a document with its length: `node:http` takes longer
 * to load than a hook may take. It is strict, as it knows who answers: whatever else comes is refused.
 */

/** What came is no answer that this package gives. */
export class ForeignAnswer extends Error {}

export interface DocumentAnswer {
  status: number;
  /** By their names in lower case; values of the same name are joined by commas. */
  headers: Readonly<Record<string, string>>;
  text: string;
}

type Head = Omit<DocumentAnswer, 'text'> & { bodyBytes: number };

const HEAD_BYTES_MAX = 16 << 10;
const HEAD_END = '\r\n\r\n';
const VERSION = 'HTTP/1.1 ';
/** What says that more answers follow (1xx) was not asked for. */
const STATUS_LINE = /^HTTP\/1\.1 (?<status>[2-5]\d\d) [\t\x20-\x7e\x80-\xff]*$/;
const HEADER_LINE = /^(?<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*(?<value>[\t\x20-\x7e\x80-\xff]*?)[\t ]*$/;
const LENGTH = /^\d{1,15}$/;

export class AnswerReader {
  readonly #bytesMax: number;
  #head: Head | undefined;
  /** The bytes that came: of the head until that is whole, of the body from then on. */
  #pieces: Buffer[] = [];
  #count = 0;

  /** `bytesMax`: of the document. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Takes the next bytes, in any pieces. Returns the answer when it is whole. Throws `ForeignAnswer`. */
  read(bytes: Buffer): DocumentAnswer | undefined {
    this.#pieces.push(bytes);
    this.#count += bytes.length;
    this.#head ??= this.#readHead();
    if (!this.#head || this.#count < this.#head.bodyBytes) return undefined;
    if (this.#count > this.#head.bodyBytes) throw new ForeignAnswer('bytes follow the answer');
    const { status, headers } = this.#head;
    return { status, headers, text: Buffer.concat(this.#pieces).toString() };
  }

  #readHead(): Head | undefined {
    const come = Buffer.concat(this.#pieces);
    this.#pieces = [come];
    if (!VERSION.startsWith(come.toString('latin1', 0, VERSION.length))) throw new ForeignAnswer('it is no HTTP/1.1');
    const end = come.indexOf(HEAD_END);
    const length = end === -1 ? come.length : end + HEAD_END.length;
    if (length > HEAD_BYTES_MAX) throw new ForeignAnswer('the head is too long');
    if (end === -1) return undefined;
    const [first = '', ...lines] = come.toString('latin1', 0, end).split('\r\n');
    const headers: Record<string, string> = Object.create(null) as Record<string, string>;
    for (const line of lines) {
      const { name = '', value = '' } = matched(HEADER_LINE, line);
      const key = name.toLowerCase();
      headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`;
    }
    const { 'content-length': bytes = '', 'transfer-encoding': encoding } = headers;
    if (!LENGTH.test(bytes) || encoding !== undefined) throw new ForeignAnswer('the length of the body is not told');
    if (Number(bytes) > this.#bytesMax) throw new ForeignAnswer('the body is too long');
    this.#pieces = [come.subarray(length)];
    this.#count = come.length - length;
    return { status: Number(matched(STATUS_LINE, first)['status']), headers, bodyBytes: Number(bytes) };
  }
}

function matched(pattern: RegExp, line: string): Readonly<Record<string, string | undefined>> {
  const groups = pattern.exec(line)?.groups;
  if (!groups) throw new ForeignAnswer('a line of the head is malformed');
  return groups;
}
