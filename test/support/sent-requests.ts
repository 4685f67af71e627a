/**
 * Reads off the bytes of a connection which requests a test has sent over it, so that each answer can be told what it
 * answers. Behind framing that can be read in two ways nothing is told any more.
 */

export interface SentRequest {
  method: string;
  /** As sent. */
  target: string;
}

/** More than any head that a server takes. */
const HEAD_BYTES_MAX = 16_384;
const HEAD_END = '\r\n\r\n';

export class SentRequests {
  readonly #unanswered: SentRequest[] = [];
  /** The beginning of a head that is not whole, as Latin-1. */
  #head = '';
  #bodyBytesLeft = 0;
  #isLost = false;

  /** Takes the next bytes of the connection. */
  add(bytes: Uint8Array): void {
    let rest = bytes;
    while (rest.length > 0 && !this.#isLost) {
      const ofBody = Math.min(this.#bodyBytesLeft, rest.length);
      this.#bodyBytesLeft -= ofBody;
      rest = this.#addToHead(rest.subarray(ofBody));
    }
  }

  /** The request that the next answer belongs to; `undefined` when that cannot be told. */
  nextAnswered(): SentRequest | undefined {
    return this.#unanswered.shift();
  }

  /** Answers what lies behind the head. */
  #addToHead(bytes: Uint8Array): Uint8Array {
    const before = this.#head.length;
    this.#head += Buffer.from(bytes.subarray(0, HEAD_BYTES_MAX)).toString('latin1');
    const end = this.#head.indexOf(HEAD_END);
    if (end === -1) {
      if (this.#head.length >= HEAD_BYTES_MAX) this.#isLost = true;
      return new Uint8Array(0);
    }
    const head = this.#head.slice(0, end);
    this.#head = '';
    this.#readHead(head);
    return bytes.subarray(end + HEAD_END.length - before);
  }

  #readHead(head: string): void {
    const [requestLine = '', ...lines] = head.replace(/^(?:\r\n)+/, '').split('\r\n');
    const parts = /^(?<method>[^ ]+) (?<target>[^ ]+) HTTP\/1\.1$/.exec(requestLine)?.groups;
    const framing = lines.filter((line) => /^(?:content-length|transfer-encoding)\b/i.test(line));
    const length = /^content-length: *(?<digits>[0-9]{1,15}) *$/i.exec(framing[0] ?? 'content-length: 0')?.groups;
    if (parts?.['method'] && parts['target']) {
      this.#unanswered.push({ method: parts['method'], target: parts['target'] });
    }
    if (!parts || !length || framing.length > 1) this.#isLost = true;
    else this.#bodyBytesLeft = Number(length['digits']);
  }
}
