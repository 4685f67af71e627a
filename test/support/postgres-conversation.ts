/**
 * Reads what a client and a server of PostgreSQL say on one connection without TLS, cut into the messages of its
 * protocol: so that a link knows which bytes answer which statement.
 */

/** These come before the first message of a type, and ask for TLS or GSSAPI: the server answers with one byte. */
const ENCRYPTION_REQUESTS = new Set([80_877_103, 80_877_104]);
const LENGTH_BYTES = 4;

export interface Passing {
  bytes: Buffer;
  /** Nothing goes on behind these bytes: the link is to be cut. */
  isLast: boolean;
}

export class Conversation {
  readonly #isToBeLost: (statement: string) => boolean;
  readonly #requests = new Messages();
  readonly #answers = new Messages();
  /** The statements that are not answered yet, oldest first: whether their answer is to be lost. */
  readonly #unanswered: boolean[] = [];
  /** Names and texts of the statements since the last `Sync`. */
  #statement = '';

  /** `isToBeLost` is asked once for each statement, with its name and its text as far as they were sent with it. */
  constructor(isToBeLost: (statement: string) => boolean) {
    this.#isToBeLost = isToBeLost;
  }

  asked(bytes: Buffer): void {
    this.#requests.add(bytes);
    while (!this.#answers.areTyped) {
      const first = this.#requests.next();
      if (!first) return;
      if (ENCRYPTION_REQUESTS.has(first.readInt32BE(LENGTH_BYTES))) continue;
      // The server says that it is ready once before the first statement.
      this.#unanswered.push(false);
      this.#requests.areTyped = true;
      this.#answers.areTyped = true;
    }
    for (let message = this.#requests.next(); message; message = this.#requests.next()) this.#heard(message);
  }

  /**
   * Returns which of these bytes go on to the client: the answer that is to be lost is kept until it is whole, and
   * dropped.
   */
  answered(bytes: Buffer): Passing {
    if (!this.#answers.areTyped) return { bytes, isLast: false };
    this.#answers.add(bytes);
    const passed: Buffer[] = [];
    for (let message = this.#answers.next(); message; message = this.#answers.next()) {
      const isReady = typeOf(message) === 'Z';
      if (this.#unanswered[0] !== true) passed.push(message);
      else if (isReady) return { bytes: Buffer.concat(passed), isLast: true };
      if (isReady) this.#unanswered.shift();
    }
    return { bytes: Buffer.concat(passed), isLast: false };
  }

  #heard(message: Buffer): void {
    const type = typeOf(message);
    // Query begins with its text, Parse with a name and a text, Bind with two names; a zero byte is behind each.
    if (type === 'Q') this.#statement += textsOf(message, 1);
    if (type === 'P' || type === 'B') this.#statement += textsOf(message, 2);
    if (type !== 'S' && type !== 'Q') return;
    this.#unanswered.push(this.#isToBeLost(this.#statement));
    this.#statement = '';
  }
}

/** Bytes of one direction, as whole messages. */
class Messages {
  /** The first message of a client has no type. */
  areTyped = false;
  #bytes = Buffer.alloc(0);

  add(bytes: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
  }

  /** The next whole message, with its type and length. */
  next(): Buffer | undefined {
    const before = this.areTyped ? 1 : 0;
    if (this.#bytes.length < before + LENGTH_BYTES) return undefined;
    const end = before + this.#bytes.readInt32BE(before);
    if (this.#bytes.length < end) return undefined;
    const message = this.#bytes.subarray(0, end);
    this.#bytes = this.#bytes.subarray(end);
    return message;
  }
}

function typeOf(message: Buffer): string {
  return String.fromCharCode(message[0] ?? 0);
}

/** The first texts of a message, a line each; what is behind them may be large. */
function textsOf(message: Buffer, count: number): string {
  let end = LENGTH_BYTES;
  for (let text = 0; text < count; text++) end = message.indexOf(0, end + 1);
  const texts = message.toString('latin1', 1 + LENGTH_BYTES, end);
  return `${texts.replaceAll('\0', '\n')}\n`;
}
