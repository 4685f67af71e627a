/**
 * For a rehearsal, asks a relay who it is, for its log, and of up to 100 hosts what each of them sees. Every answer is
 * held to the protocol, and to the log as it was verified.
 */
import { BINARY_TYPE, framesIn, readMessagePack } from '../../protocol/message-pack.ts';
import { signCheckpoint } from '../../protocol/checkpoint.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { decodeBase64, hasHash } from '../../protocol/encodings.ts';
import type { Epoch } from '../../protocol/names.ts';
import { isObject, ITEM_JSON_BOUNDS, jsonIn } from '../../protocol/json.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { InfoResponse, PullResponse } from '../../protocol/responses.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { type Answer, answerOf } from './answers.ts';
import type { Progress } from './finding.ts';
import { checkProofs, NotVerified } from './proof-check.ts';

const HOSTS_MAX = 100;
/** The pages that it asks for in the name of one host. */
const PAGES_MAX = 10;

/** A relay that answers for every host (relay/rehearsal.ts). */
export interface AskedRelay {
  signer: Signer;
  hosts: readonly PublicKey[];
  ask(question: {
    target: string;
    host?: PublicKey | undefined;
    accept?: string | undefined;
  }): Promise<{ status: number; type: string; body: Buffer }>;
}

/** The end of the log, as it was verified. */
export interface LogEnd {
  epoch: Epoch;
  treeSize: number;
  /** Base64. */
  rootHash: string;
}

export interface CheckedAnswers {
  answers: Answer[];
  hosts: number;
  /** The faults of answers, each a sentence without its period. */
  faults: string[];
}

export async function* askEverything(relay: AskedRelay, end: LogEnd): AsyncGenerator<Progress, CheckedAnswers> {
  const questions = new Questions(relay, end);
  await questions.ofLog();
  const hosts = relay.hosts.slice(0, HOSTS_MAX);
  for (const [done, host] of hosts.entries()) {
    yield { stage: 'hosts', done, of: hosts.length };
    await questions.ofHost(host);
  }
  const { answers, faults } = questions;
  return { answers, hosts: hosts.length, faults };
}

interface AskedQuestion {
  asked: string;
  status: number;
  document: unknown;
}

const parsePage = parserOf(PullResponse);
const parseInfo = parserOf(InfoResponse);

type PageItem = NonNullable<ReturnType<typeof parsePage>>['items'][number];

class Questions {
  readonly answers: Answer[] = [];
  readonly faults: string[] = [];
  readonly #relay: AskedRelay;
  readonly #end: LogEnd;
  readonly #hosts: ReadonlySet<PublicKey>;

  constructor(relay: AskedRelay, end: LogEnd) {
    this.#relay = relay;
    this.#end = end;
    this.#hosts = new Set(relay.hosts);
  }

  async ofLog(): Promise<void> {
    const { epoch, treeSize: size, rootHash } = this.#end;
    await this.#info();
    await this.#ask('/v2/relay/log/link');
    const newest = await this.#ask('/v2/relay/log/checkpoint', { isKept: false });
    const { document: note } = newest;
    if (typeof note !== 'string') return this.#fault(newest, 'the answer is no checkpoint');
    const target = `/v2/relay/log/consistency?from=${size}&to=${note.split('\n')[1]}`;
    const growth = await this.#ask(target, { isKept: false });
    const old = signCheckpoint({ epoch, size, rootHash: Buffer.from(rootHash, 'base64') }, this.#relay.signer);
    this.#check(growth, () => checkProofs({ proofs: [growth.document], old, new: note }));
  }

  /** Its pages, and the proofs of the first and the last item on them. */
  async ofHost(host: PublicKey): Promise<void> {
    await this.#info(host);
    let [first, last]: PageItem[] = [];
    for (let pages = 0, after = 0, more = true; pages < PAGES_MAX && more; pages++) {
      const target = `/v2/relay/items?after=${after}`;
      const asked = await this.#ask(target, { host });
      await this.#ask(target, { host, accept: BINARY_TYPE });
      const page = parsePage(asked.document);
      if (!page || (page.more && page.last_seq <= after)) {
        this.#fault(asked, 'the answer is no page');
        break;
      }
      first ??= page.items[0];
      last = page.items.at(-1) ?? last;
      ({ more, last_seq: after } = page);
    }
    for (const item of new Set([first, last])) await this.#proof(item, host);
  }

  async #info(host?: PublicKey): Promise<void> {
    const asked = await this.#ask('/v2/relay/info', { host });
    if (parseInfo(asked.document)?.epoch !== this.#end.epoch) this.#fault(asked, 'its epoch is not that of the backup');
  }

  /** Asks for it as its sender does. Notices have none, and a host that is gone asks for nothing. */
  async #proof(item: PageItem | undefined, target: PublicKey): Promise<void> {
    const sender = item?.sender_pubkey as PublicKey | undefined;
    if (!item || !sender || !this.#hosts.has(sender)) return;
    const query = new URLSearchParams({ item_id: item.item_id, target });
    const asked = await this.#ask(`/v2/relay/log/proof?${query.toString()}`, { host: sender });
    if (asked.status !== 200) return;
    this.#check(asked, () => {
      const { items } = checkProofs({ proofs: [asked.document] });
      const wire = decodeBase64(item.wire_b64);
      if (!items.some(({ targets }) => targets.some(({ wireHash }) => hasHash(wire, wireHash))))
        throw new NotVerified('the record is of other bytes than those on the page');
    });
  }

  #check(asked: AskedQuestion, check: () => unknown): void {
    try {
      check();
    } catch (error) {
      if (!(error instanceof NotVerified)) throw error;
      this.#fault(asked, error.message);
    }
  }

  #fault({ asked }: AskedQuestion, what: string): void {
    this.faults.push(`${asked}: ${what}`);
  }

  async #ask(
    target: string,
    { host, accept, isKept = true }: { host?: PublicKey | undefined; accept?: string; isKept?: boolean } = {},
  ): Promise<AskedQuestion> {
    const { status, type, body } = await this.#relay.ask({ target, host, accept });
    const form = accept === undefined ? '' : ' in the binary form';
    const asked = `${target}${host ? ` of ${displayFingerprint(host)}` : ''}${form}`;
    const document = documentIn(type, body);
    const answered = { asked, status, document };
    if (document === undefined) this.#fault(answered, 'it cannot be read');
    else if (isKept) this.answers.push(answerOf(asked, status, document));
    if (status !== 200 && !isPruned(answered)) this.#fault(answered, `it is answered with ${status}`);
    return answered;
  }
}

/**
 * Parses an answer; returns its bytes where it is neither a document nor a text, `undefined` where it cannot be read.
 */
function documentIn(type: string, body: Buffer): unknown {
  if (type.startsWith('text/')) return body.toString();
  if (type === BINARY_TYPE) {
    const frames = framesIn(body, Infinity).map((frame) => readMessagePack(frame, ITEM_JSON_BOUNDS));
    return frames.every(isObject) ? { frames } : undefined;
  }
  return type.includes('json') ? jsonIn(body.toString()) : body;
}

/** The record of an item may be pruned; nothing else that is asked may be unknown. */
function isPruned({ status, document }: AskedQuestion): boolean {
  return status === 404 && isObject(document) && document['code'] === 'RECORD_PRUNED';
}
