/**
 * A host of the mail benchmarks, with a store that syncs, in a process of its own as a daemon is. `startMailHost`
 * starts one, and calls it by messages.
 */
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { actingAgent, addAgent } from '../src/host/agents/agents.ts';
import { createHostContext, type HostContext, type HostEvent } from '../src/host/base/context.ts';
import { RETRY_TIMING } from '../src/host/core/outbox-event.ts';
import { type Refusal, isRefusal } from '../src/host/core/refusal.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { LanService } from '../src/host/lan/lan-service.ts';
import { generateSealKey } from '../src/host/wire/sealing.ts';
import { sendMail } from '../src/host/mail/send.ts';
import { OutboxDispatcher } from '../src/host/outbox/dispatcher.ts';
import { identityOf, newIdentityRow, signedEncKey } from '../src/host/peers/identity.ts';
import { pinPeer } from '../src/host/peers/peers.ts';
import { RelayService } from '../src/host/relay/relay-service.ts';
import { createHostStore } from '../src/host/store/open.ts';
import type { HostName } from '../src/protocol/names.ts';
import { displayFingerprint, type PublicKey } from '../src/protocol/public-key.ts';
import { onEvent } from '../test/support/on-event.ts';
import type { Environment } from '../test/support/poste-process.ts';
import { ofBuild } from './build.ts';

export const BODY_BYTES = 1000;
const BODY = 'x'.repeat(BODY_BYTES);
const READY_EVERY_MS = 5;

type EventType = HostEvent['type'];
type OtherHost = Parameters<typeof pinPeer>[2];

class MailHost {
  readonly #context: HostContext;
  readonly #lan: LanService;
  readonly #side: RelayService;
  readonly #agentId: AgentId;
  readonly #close: () => Promise<void>;
  readonly #counts = new Map<EventType, number>();
  #waiting: { type: EventType; wanted: number; resolve: () => void }[] = [];

  private constructor(
    context: HostContext,
    { lan, side }: { lan: LanService; side: RelayService },
    agentId: AgentId,
    close: () => Promise<void>,
  ) {
    this.#context = context;
    this.#lan = lan;
    this.#side = side;
    this.#agentId = agentId;
    this.#close = close;
    onEvent(context, ({ type }) => this.#happened(type));
  }

  static async open(name: string): Promise<MailHost> {
    const { context, remove } = await newHost(name);
    granted(await addAgent(context, { name: 'agent' }));
    const side = new RelayService({ context });
    const listen = { host: '127.0.0.1', port: 0 };
    const lan = new LanService({ context, listen, advertise: undefined, version: 'bench' });
    const outbox = new OutboxDispatcher({ context, lan: lan.carrier, relays: side });
    await outbox.start();
    const close = async (): Promise<void> => {
      const ended = outbox.stop();
      await lan.stop();
      await side.stop();
      await ended;
      await remove();
    };
    return new MailHost(context, { lan, side }, granted(await actingAgent(context, 'agent')), close);
  }

  startLan(): Promise<void> {
    return this.#lan.start();
  }

  stopLan(): Promise<void> {
    return this.#lan.stop();
  }

  async invite(accepting: PublicKey): Promise<{ code: string; address: string }> {
    const { code } = granted(await this.#lan.invite({ fingerprint: displayFingerprint(accepting) }));
    return { code, address: `127.0.0.1:${this.#lan.port}` };
  }

  async accept(invitation: { code: string; address: string }): Promise<void> {
    granted(await this.#lan.accept(invitation));
  }

  /** Returns what another host pins. */
  async shown(): Promise<OtherHost> {
    const identity = this.#context.identity();
    const { hostName, signer } = identity;
    return { hostName, publicKey: signer.publicKey, encKey: signedEncKey(identity), address: null };
  }

  async pin(other: OtherHost): Promise<void> {
    granted(await this.#context.store.transact((tx) => pinPeer(tx, this.#context, other)));
  }

  /** Resolves when the relay can take mail of this host. */
  async useRelay(url: string): Promise<void> {
    this.#side.start();
    granted(await this.#side.set({ url }));
    while ((await this.#side.status()).state !== 'ready') await turn();
  }

  /** Resolves with the milliseconds of each message when so many, of so many senders in turn, are durable here. */
  async send(to: string, messages: number, senders: number): Promise<number[]> {
    const tookMs: number[] = [];
    const sendSome = async (): Promise<void> => {
      for (let sent = 0; sent < messages / senders; sent++) {
        const startedMs = performance.now();
        granted(await sendMail(this.#context, this.#agentId, { to: [to], subject: 'bench', body: BODY }));
        tookMs.push(performance.now() - startedMs);
      }
    };
    await Promise.all(Array.from({ length: senders }, sendSome));
    return tookMs;
  }

  /** Returns how often this happened. */
  async count(type: EventType): Promise<number> {
    return this.#counts.get(type) ?? 0;
  }

  /** Resolves when it has happened so often. */
  reached(type: EventType, wanted: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ type, wanted, resolve });
      this.#settle();
    });
  }

  end(): Promise<void> {
    return this.#close();
  }

  #happened(type: EventType): void {
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1);
    this.#settle();
  }

  #settle(): void {
    const isReached = (one: { type: EventType; wanted: number }): boolean =>
      (this.#counts.get(one.type) ?? 0) >= one.wanted;
    for (const one of this.#waiting) if (isReached(one)) one.resolve();
    this.#waiting = this.#waiting.filter((one) => !isReached(one));
  }
}

type Calls = Omit<MailHost, never>;
type Method = keyof Calls;
type Answer<M extends Method> = Awaited<ReturnType<Calls[M]>>;

interface Asked {
  id: number;
  method: Method;
  given: unknown[];
}

interface Answered {
  id: number;
  value?: unknown;
  failure?: string;
}

/** A host in another process. */
export interface RemoteHost {
  pid: number;
  call<M extends Method>(method: M, ...given: Parameters<Calls[M]>): Promise<Answer<M>>;
  end(): Promise<void>;
}

/** A new host on a store of its own, which syncs every batch. */
export async function newHost(name: string): Promise<{ context: HostContext; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const store = await createHostStore(join(folder, 'store'), (error) => {
    throw error;
  });
  const { enc_pub: encPub, secret } = await generateSealKey();
  const identity = { hostName: name as HostName, seed: randomBytes(32), sealKey: { encPub, secret } };
  const row = newIdentityRow({ ...identity, nowMs: Date.now() });
  await store.transact((tx) => tx.put('identity', [], row));
  const remove = async (): Promise<void> => {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { context: createHostContext(store, identityOf(row), RETRY_TIMING, () => undefined), remove };
}

export async function startMailHost(name: string, environment: Environment): Promise<RemoteHost> {
  const env = { ...process.env, ...environment };
  const child = fork(ofBuild('bench/mail-host.ts'), [name], { execArgv: process.execArgv, env });
  // The end of the benchmark, whatever it is, ends its hosts.
  const endWithBench = (): void => void child.kill('SIGKILL');
  process.once('exit', endWithBench);
  const open = new Map<number, (answer: Answered) => void>();
  let asked = 0;
  const begun = new Promise<void>((resolve, reject) => {
    open.set(0, ({ failure }) => (failure === undefined ? resolve() : reject(new Error(failure))));
  });
  child.on('message', (answer: Answered) => {
    open.get(answer.id)?.(answer);
    open.delete(answer.id);
  });
  child.once('exit', () => {
    for (const [id, answered] of open) answered({ id, failure: `the host ${name} ended` });
  });
  await begun;
  const call = <M extends Method>(method: M, ...given: Parameters<Calls[M]>): Promise<Answer<M>> => {
    const id = ++asked;
    return new Promise((resolve, reject) => {
      open.set(id, ({ value, failure }) => {
        if (failure === undefined) resolve(value as Answer<M>);
        else reject(new Error(failure));
      });
      const message: Asked = { id, method, given };
      child.send(message);
    });
  };
  const end = async (): Promise<void> => {
    await call('end');
    process.off('exit', endWithBench);
    const ended = new Promise((resolve) => {
      child.once('exit', resolve);
    });
    child.disconnect();
    await ended;
  };
  return { pid: child.pid ?? 0, call, end };
}

function answer(answered: Answered): void {
  process.send?.(answered);
}

/** The other process. */
async function serve(name: string): Promise<void> {
  const host = await MailHost.open(name);
  process.on('message', ({ id, method, given }: Asked) => {
    const work = host[method] as (...args: unknown[]) => Promise<unknown>;
    work.apply(host, given).then(
      (value) => answer({ id, value }),
      (error: unknown) => answer({ id, failure: String(error) }),
    );
  });
  process.once('disconnect', () => process.exit());
  answer({ id: 0 });
}

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, READY_EVERY_MS);
  });
}

export function granted<T>(value: T | Refusal): T {
  if (isRefusal(value)) throw new Error(value.message);
  return value;
}

if (process.send) await serve(process.argv[2] ?? '');
