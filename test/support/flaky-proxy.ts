/**
 * Stands between hosts and a relay, or in front of the listener of a host: loses requests and answers, brings requests
 * twice or once more later, gives answers of before, and lets answers overtake each other, as a seed says.
 */
import { type IncomingHttpHeaders, type Server, createServer, request } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { BINARY_TYPE } from '../../src/protocol/message-pack.ts';
import { HOP_HEADERS, RECEIPTS_HEADER } from '../../src/protocol/hop.ts';
import { documentOf, framesOf } from './binary-form.ts';
import type { SeededRandom } from './seeded-random.ts';

/** In an answer that no relay gave. */
export const NO_RELAY_HEADER = 'x-no-relay';
/** Requests of a proxy to the relay behind it. */
export const passedOn = new WeakSet<object>();

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

interface Asked {
  method: string;
  target: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

interface Instead {
  status: number;
  document: object;
  /** Another relay than ours answers so: our OpenAPI document does not describe it. */
  isForeign?: true;
  /** The document is a page, which is sent in the binary form. */
  isBinary?: boolean;
}

/** The chance that each of these happens to a request, from 0 to 1. */
export interface Chances {
  lostRequest: number;
  /** After the relay acted. */
  lostAnswer: number;
  twice: number;
  /** The answer ends in the middle of its body. */
  cutAnswer: number;
  /** The answer comes some turns later than it could. */
  lateAnswer: number;
  /** An earlier request comes once more, byte for byte, before this one. */
  replayed?: number;
  /** The request is done, and the answer is one that the same host got before to the same kind of request. */
  oldAnswer?: number;
  /** The answer waits until another one has overtaken it, or a moment. */
  overtaken?: number;
  /** The header by which a push asks for receipts that are signed together is lost. */
  lostHeader?: number;
}
export const NO_CHANCES: Chances = { lostRequest: 0, lostAnswer: 0, twice: 0, cutAnswer: 0, lateAnswer: 0 };

/** Some of everything. */
export function anyChances(random: SeededRandom): Chances {
  const share = (): number => random.unit() * 0.25;
  return {
    lostRequest: share(),
    lostAnswer: share(),
    twice: share(),
    cutAnswer: share(),
    lateAnswer: share(),
    replayed: share(),
    oldAnswer: share() / 2,
    overtaken: share(),
    lostHeader: share(),
  };
}

const LATE_MAX_MS = 50;
const OVERTAKEN_MAX_MS = 400;
/** Earlier requests that are kept, and earlier answers of each kind. */
const KEPT_MAX = 40;
const IDLE_TURN_MS = 3;

export class FlakyProxy {
  chances: Chances = NO_CHANCES;
  /** `gone`: every connection is ended. `silent`: nothing is answered, and nothing is passed on. */
  isAway: 'gone' | 'silent' | undefined;
  /** Says whether nothing of v2 is there: such a request gets 404 and is not passed on. */
  isV1Only = false;
  /** Told of every request: whether it is lost on its way there, or its answer on the way back. */
  cut: (asked: string, target: string) => 'request' | 'answer' | undefined = () => undefined;
  /** The requests, oldest first: `METHOD path`. */
  readonly asked: string[] = [];
  /** The bodies that came with them, as JSON has them. */
  readonly bodies: string[] = [];
  /** Told of every request before it is passed on; answers what to answer instead. */
  instead: (method: string, target: string) => Instead | undefined = () => undefined;
  /** Requests that are not answered yet, but for pulls: those may be held. */
  #underWay = 0;
  readonly #server: Server;
  readonly #random: SeededRandom;
  readonly #port: (target: string) => number;
  readonly #earlier: Asked[] = [];
  readonly #answers = new Map<string, Answer[]>();
  /** Answers that wait until they are overtaken. */
  readonly #waiting: (() => void)[] = [];

  private constructor(random: SeededRandom, port: (target: string) => number) {
    this.#random = random;
    this.#port = port;
    this.#server = createServer((incoming, outgoing) => {
      if (this.isAway === 'gone') return void outgoing.destroy();
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => void chunks.push(chunk));
      incoming.on('end', () => {
        if (this.isAway === 'silent') return;
        const { method = '', url = '', headers } = incoming;
        this.asked.push(`${method} ${url.split('?')[0]}`);
        this.bodies.push(bodyText(headers['content-type'], Buffer.concat(chunks)));
        if (this.isV1Only && url.startsWith('/v2/')) {
          outgoing.writeHead(404, { 'content-type': 'text/plain', [NO_RELAY_HEADER]: 'yes' }).end('not found\n');
          return;
        }
        const isPull = method === 'GET' && url.startsWith('/v2/relay/items');
        if (!isPull) {
          this.#underWay++;
          outgoing.once('close', () => this.#underWay--);
        }
        this.#pass({ method, target: url, headers, body: Buffer.concat(chunks) }).then(
          (answer) => {
            if (!answer) return void outgoing.destroy();
            const made = this.instead(method, url);
            const { status, body, headers } = made ? answerOf(made) : answer;
            const { 'transfer-encoding': _chunked, connection: _connection, ...kept } = answer.headers;
            // A problem has one form.
            if (made && status >= 400) delete kept.vary;
            outgoing.writeHead(status, { ...kept, ...(made && headers), 'content-length': body.length });
            if (this.#random.chance(this.chances.cutAnswer)) {
              outgoing.write(body.subarray(0, Math.floor(body.length / 2)), () => outgoing.destroy());
            } else outgoing.end(body);
          },
          () => void outgoing.destroy(),
        );
      });
    });
  }

  /** `port`: where the relay listens now that is to answer for this target. */
  static async open(random: SeededRandom, port: (target: string) => number): Promise<FlakyProxy> {
    const proxy = new FlakyProxy(random, port);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves when nothing was under way for two turns. */
  async idle(): Promise<void> {
    for (let idle = 0; idle < 2; idle = this.#underWay === 0 ? idle + 1 : 0) await late(IDLE_TURN_MS);
  }

  /** Ends every connection where it stands: whatever was asked is not answered any more. */
  cutAll(): void {
    this.#server.closeAllConnections();
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #pass(asked: Asked): Promise<Answer | undefined> {
    const {
      lostRequest,
      lostAnswer,
      twice,
      lateAnswer,
      replayed = 0,
      oldAnswer = 0,
      overtaken = 0,
      lostHeader = 0,
    } = this.chances;
    const { method, target } = asked;
    const cut = this.cut(`${method} ${target.split('?')[0]}`, target);
    if (cut === 'request' || this.#random.chance(lostRequest)) return undefined;
    if (lostHeader > 0 && this.#random.chance(lostHeader)) delete asked.headers[RECEIPTS_HEADER];
    if (replayed > 0 && this.#random.chance(replayed)) this.#replay();
    if (this.#random.chance(twice)) await this.#forward(asked);
    const answer = await this.#forward(asked);
    const before = this.#keep(asked, answer);
    if (this.#random.chance(lateAnswer)) await late(this.#random.below(LATE_MAX_MS));
    if (overtaken > 0) await this.#order(this.#random.chance(overtaken));
    const isOld = oldAnswer > 0 && before.length > 0 && this.#random.chance(oldAnswer);
    return cut === 'answer' || this.#random.chance(lostAnswer) ? undefined : isOld ? this.#random.pick(before) : answer;
  }

  /** Answers of before to the same kind of request of the same host. */
  #keep(asked: Asked, answer: Answer): readonly Answer[] {
    const kind = `${asked.method} ${asked.target.split('?')[0]} ${String(asked.headers[HOP_HEADERS.key])}`;
    const known = this.#answers.get(kind) ?? [];
    const before = [...known];
    this.#answers.set(kind, [...known, answer].slice(-KEPT_MAX));
    this.#earlier.push(asked);
    if (this.#earlier.length > KEPT_MAX) this.#earlier.shift();
    return before;
  }

  /** Nobody hears its answer. */
  #replay(): void {
    if (this.#earlier.length > 0) void this.#forward(this.#random.pick(this.#earlier)).catch(() => undefined);
  }

  /** Waits when this answer is to be overtaken; otherwise the ones that wait go right behind it. */
  async #order(waits: boolean): Promise<void> {
    if (waits) {
      await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), late(OVERTAKEN_MAX_MS)]);
      return;
    }
    for (const go of this.#waiting.splice(0)) setImmediate(go);
  }

  #forward({ method, target, headers, body }: Asked): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { connection: _connection, host: _host, 'transfer-encoding': _chunked, ...kept } = headers;
      const port = this.#port(target);
      const passed = { ...kept, host: `127.0.0.1:${port}`, ...(body.length > 0 && { 'content-length': body.length }) };
      const outgoing = request({ host: '127.0.0.1', port, method, path: target, headers: passed, agent: false });
      passedOn.add(outgoing);
      outgoing.on('error', reject);
      outgoing.on('response', (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => void chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () =>
          resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) }),
        );
      });
      outgoing.end(body);
    });
  }
}

function bodyText(type: string | undefined, body: Buffer): string {
  return type === BINARY_TYPE ? JSON.stringify(documentOf(type, body)) : body.toString('utf8');
}

function answerOf({ status, document, isForeign, isBinary = false }: Instead): Answer {
  const isProblem = status >= 400;
  const json = isProblem ? 'application/problem+json' : 'application/json';
  const headers = {
    'content-type': isBinary ? BINARY_TYPE : json,
    ...(isForeign && { [NO_RELAY_HEADER]: 'yes' }),
    ...(isProblem && status === 503 && { 'retry-after': '1' }),
  };
  return { status, headers, body: isBinary ? framesOf(document) : Buffer.from(JSON.stringify(document)) };
}

function late(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
