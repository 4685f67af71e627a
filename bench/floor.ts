/**
 * The floor: a relay that does only what cannot be left out, in a process of its own behind the relay's HTTP server,
 * asked by the same client. Of a push it hashes the body, verifies the hop, parses the JSON, decodes and hashes every
 * item, writes them in a synced LevelDB batch and signs a receipt for each, hops and receipts in the relay's second
 * thread; pushes that wait for the disk share the next batch. A page it reads out of LevelDB, where what came for a
 * target in one request is one value, and writes as the wire has it. Nothing else is checked, counted or indexed.
 */
import { fork } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Exchange, Listen, ReplyStream } from '../src/http/exchange.ts';
import { listenNode } from '../src/http/server-node.ts';
import { BINARY_TYPE, frame, pulledFrameHead, readPush, packed, packedBytes } from '../src/protocol/message-pack.ts';
import { RECEIPTS_HEADER, TREE_RECEIPTS, hopV2Message } from '../src/protocol/hop.ts';
import { leafHash } from '../src/protocol/merkle.ts';
import type { ItemId } from '../src/protocol/names.ts';
import { receiptTree } from '../src/protocol/documents.ts';
import { sha256Hex } from '../src/protocol/encodings.ts';
import type { PublicKey } from '../src/protocol/public-key.ts';
import { SignatureThread } from '../src/relay/auth/signature-thread.ts';
import { uwsHere } from '../src/relay/http/uws-binding.ts';
import { listenUws } from '../src/relay/http/uws-connection.ts';
import { type Level, levelAt } from '../src/relay/store/level.ts';
import { NAMED_THREADS } from './cpu-seconds.ts';
import { GroupCommit } from './group-commit.ts';
import type { PushTarget } from './push.ts';
import { PUSH_TARGET, namedSigner } from './work.ts';

const SIGNER = namedSigner('relay');
const SIGNATURE_WORKER = new URL('../dist/program/signature-worker.js', import.meta.url);
const PAGE_BYTES = 8 << 20;
const PAGE_ITEMS = 500;
/** A value of the store as text. */
const PIECE_BYTES = 2 << 20;
const VALUES_AT_ONCE = { highWaterMarkBytes: 64 << 10 };
const SEQ_MAX = 2 ** 48 - 1;
const ID_BYTES = 26;
const HEAD_BYTES = ID_BYTES + 4;

export type FloorServer = PushTarget & { pid: number; stop: () => Promise<void> };

export async function startFloor(): Promise<FloorServer> {
  const folder = mkdtempSync(join(tmpdir(), 'poste-bench-'));
  const env = { ...process.env, ...NAMED_THREADS };
  const child = fork(new URL(import.meta.url), [folder], { execArgv: process.execArgv, env });
  const port = await new Promise<number>((resolve, reject) => {
    child.once('message', (message) => resolve(message as number));
    child.once('exit', (code) => reject(new Error(`the floor ended with exit code ${code}`)));
  });
  const stop = async (): Promise<void> => {
    const ended = new Promise((resolve) => {
      child.once('exit', resolve);
    });
    child.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { pid: child.pid ?? 0, port, relayPubkey: SIGNER.publicKey, isFloor: true, stop };
}

/** A pushed item in either form. */
interface Item {
  item_id: string;
  targets: { host_pubkey: string | Buffer; wire_b64?: string; wire?: Buffer }[];
}

class Floor {
  readonly #level: Level;
  readonly #committed: GroupCommit;
  readonly #signatures = new SignatureThread(SIGNER, SIGNATURE_WORKER);
  #seq = 0;
  /** Memory of pages that were sent. */
  readonly #pieces: Buffer[] = [];

  constructor(level: Level) {
    this.#level = level;
    this.#committed = new GroupCommit(level);
  }

  async push(headers: ReadonlyMap<string, string>, body: Buffer): Promise<string | Buffer> {
    const header = (name: string): string => headers.get(name) ?? '';
    const fields = { method: 'POST', target: PUSH_TARGET, timestamp: header('x-mail-ts'), bodyHash: sha256Hex(body) };
    const message = hopV2Message(fields, SIGNER.publicKey);
    const isValid = await this.#signatures.verify(header('x-mail-key') as PublicKey, message, header('x-mail-sig'));
    if (!isValid) throw new Error('the hop does not verify');
    const isBinary = header('content-type') === BINARY_TYPE;
    const { items } = (isBinary ? readPush(body) : JSON.parse(body.toString('utf8'))) as { items: Item[] };
    const runs = new Map<string, Buffer[]>();
    const receipts = items.map(({ item_id: itemId, targets: [target] }) => {
      const wire = target?.wire ?? Buffer.from(target?.wire_b64 ?? '', 'base64');
      const host = target?.host_pubkey.toString('base64') ?? '';
      const head = Buffer.alloc(HEAD_BYTES);
      head.write(itemId, 'latin1');
      head.writeUInt32BE(wire.length, ID_BYTES);
      const run = runs.get(host);
      if (run) run.push(head, wire);
      else runs.set(host, [head, wire]);
      return JSON.stringify({ at: ++this.#seq, item_id: itemId, host, wireHash: hash('sha256', wire, 'hex') });
    });
    const pairs = [...runs].map(([host, run]) => [keyOf(host, this.#seq), Buffer.concat(run)] as const);
    const written = this.#committed.put(pairs);
    const isTree = header(RECEIPTS_HEADER) === TREE_RECEIPTS && receipts.length > 1;
    const { each, tree } = isTree ? await this.#together(receipts) : { each: await this.#signatures.sign(receipts) };
    await written;
    if (isBinary) {
      const results = receipts.map((accept, at) => ({ status: 'accepted', accept, by: each[at]! }));
      return packedBytes({ results, tree });
    }
    const results = receipts.map(
      (accept, at) => `{"status":"accepted","accept":${accept},"by":"${each[at]!.toString('base64')}"}`,
    );
    return `{"results":[${results.join(',')}],"tree":${JSON.stringify(tree ?? null)}}`;
  }

  async #together(receipts: readonly string[]): Promise<{ each: Buffer[]; tree: string[] }> {
    const { tree, pathOf } = receiptTree(
      SIGNER.publicKey,
      receipts.map((receipt) => leafHash(Buffer.from(receipt))),
    );
    const text = JSON.stringify(tree);
    return { each: receipts.map((_receipt, at) => pathOf(at)), tree: [text, ...(await this.#signatures.sign([text]))] };
  }

  /** Sends the first full page of a target. */
  async page(host: PublicKey, isBinary: boolean, reply: ReplyStream): Promise<void> {
    const piece = this.#pieces.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
    const text = (said: string, at: number): number => at + piece.write(said, at, 'latin1');
    const first = frame(packed({ epoch: '', head_seq: 0 }));
    let end = text(isBinary ? first : '{"epoch":"","head_seq":0,"items":[', 0);
    let items = 0;
    let bytes = 0;
    for await (const run of this.#level.values({ gt: keyOf(host, 0), lt: keyOf(host, SEQ_MAX), ...VALUES_AT_ONCE })) {
      for (let at = 0; at < run.length && items < PAGE_ITEMS && bytes < PAGE_BYTES; ) {
        const next = at + HEAD_BYTES + run.readUInt32BE(at + ID_BYTES);
        const itemId = run.toString('latin1', at, at + ID_BYTES) as ItemId;
        const wireBytes = next - at - HEAD_BYTES;
        items++;
        if (isBinary) {
          end = text(pulledFrameHead({ seq: items, kind: 'envelope', itemId, senderPubkey: host }, wireBytes), end);
          end += run.copy(piece, end, at + HEAD_BYTES, next);
        } else {
          const head = `{"seq":${items},"kind":"envelope","item_id":"${itemId}","sender_pubkey":"${host}","wire_b64":"`;
          end = text(items > 1 ? `"},${head}` : head, end);
          end = text(run.toString('base64', at + HEAD_BYTES, next), end);
        }
        bytes += wireBytes;
        at = next;
      }
      await reply.write(piece.subarray(0, end));
      end = 0;
      if (items === PAGE_ITEMS || bytes >= PAGE_BYTES) break;
    }
    const last = frame(packed({ last_seq: items, more: true }));
    await reply.write(piece.subarray(0, text(isBinary ? last : `"}],"last_seq":${items},"more":true}`, 0)));
    this.#pieces.push(piece);
    reply.end();
  }

  /** Answers a request when its body has come. */
  handle(exchange: Exchange): void {
    const chunks: Buffer[] = [];
    const headers = new Map(exchange.head.headers);
    exchange.receive((chunk, isLast) => {
      chunks.push(Buffer.from(chunk));
      if (!isLast) return;
      const fail = (error: unknown): void => {
        process.stderr.write(`the floor: ${String(error)}\n`);
        exchange.abort();
      };
      if (exchange.head.method === 'POST')
        this.push(headers, Buffer.concat(chunks))
          .then((body) => exchange.reply({ status: 200, headers: {}, body }))
          .catch(fail);
      else {
        const isBinary = headers.get('accept') === BINARY_TYPE;
        this.page(headers.get('x-mail-key') as PublicKey, isBinary, exchange.startReply(200, {})).catch(fail);
      }
    });
  }
}

function keyOf(host: string, seq: number): Buffer {
  const key = Buffer.alloc(40);
  key.write(host, 'base64');
  key.writeUIntBE(seq, 34, 6);
  return key;
}

if (process.send) {
  const level = levelAt(process.argv[2] ?? '');
  await level.open();
  const floor = new Floor(level);
  const { binding } = uwsHere();
  const listen: Listen = binding ? listenUws(binding) : listenNode;
  const { port } = await listen({ host: '127.0.0.1', port: 0, handler: (exchange) => floor.handle(exchange) });
  process.send(port);
}
