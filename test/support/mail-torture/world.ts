/**
 * Three hosts with real daemons that reach each other over a LAN and over one or two relays, all processes with
 * faulty links between, and agents that send, reply, read, ack and are woken. A world is used for several runs: each
 * draws what happens from its own seed, begins when all mail of the one before has settled, and is judged on its own.
 */
import { fullSummary } from '../../../src/host/contract/usual-mail.ts';
import { setMaxListeners } from 'node:events';
import { cp } from 'node:fs/promises';
import { setTimeout as elapsed } from 'node:timers/promises';
import { CallFailed } from '../../../src/host/api/client.ts';
import type { InboxInput, InboxResult, MessageSummary, SendResult } from '../../../src/host/contract/mail.ts';
import type { OutputOf } from '../../../src/host/api/operations.ts';
import { MESSAGE_KINDS } from '../../../src/host/core/rows.ts';
import { DAY_MS } from '../../../src/protocol/limits.ts';
import { eventually } from '../eventually.ts';
import { relayProgram } from '../killed-relay.ts';
import { hasOwnDisks } from '../own-disks.ts';
import { SeededRandom } from '../seeded-random.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { wholeMailbox } from '../whole-mailbox.ts';
import type { Act, Asked, History, HostRestore, Mail, Seen, Shown } from './oracle.ts';
import { leftBehind, rowsOnTheirWay } from './on-its-way.ts';
import { AGENTS, PostHost } from './post-host.ts';
import { SharedRelay, SoloRelay, type TortureRelay } from './relays.ts';
import { MANNERS, standIn } from './stand-in.ts';

export const HOSTS = ['north', 'south', 'west'] as const;
const LONG_BODY_CHARACTERS = 60_000;
/** Nothing moves any more when what is open has not changed for so long. */
const STILL_MS = 6_000;
/**
 * The same, before it is a fault: a lost answer is waited for half a minute, more than once, and the machine may be
 * busy.
 */
const STUCK_MS = 90_000;
const SETTLED_WITHIN_MS = 240_000;
const LOOKED_EVERY_MS = 100;
/** Agents do so much more while a relay stays down. */
const LAST_ACTS = 5;
/** After so long an acceptance that nobody confirmed is doubted. */
const DOUBT_MS = 6 * 60_000;
/** After so long the sender of what nobody confirms is told. */
const TOLD_AFTER_MS = 16 * DAY_MS;

interface Agent {
  host: PostHost;
  name: string;
  address: string;
}

export interface WorldOptions {
  /** The folder of `makePairedStores` with HOSTS and the first of AGENTS. */
  paired: string;
  seed: number;
  /** One when absent. */
  relays?: number | undefined;
  /** The file of `postgres`, for a world whose relays share a log. */
  postgres?: string | undefined;
  /** The program of another build, for the daemons. */
  main?: string | undefined;
}

/** How a run of a world with several relays comes to its end. */
interface RunEnd {
  /** It stays down until mail is at rest. */
  dead: TortureRelay | undefined;
  /** The LAN, which would take the mail that relays left, stays away as long. */
  isFar: boolean;
}

export class MailWorld {
  readonly relays: readonly TortureRelay[];
  readonly hosts: readonly PostHost[];
  readonly folder: string;
  readonly #agents: readonly Agent[];
  /** The world is ahead of the real time by this. */
  #aheadMs = 0;
  #everAsked: Asked[] = [];
  #acts: Act[] = [];
  #shown: Shown[] = [];
  #asked: Asked[] = [];
  #restores: HostRestore[] = [];
  readonly #earlierRestores: HostRestore[] = [];
  #underWay = new Set<Promise<void>>();
  #count = 0;
  #prefix = '';
  #sessions = new AbortController();
  #standIns: Promise<void>[] = [];
  #end: RunEnd = { dead: undefined, isFar: false };
  random = new SeededRandom(0);
  /** Calls of agents that failed otherwise than by a daemon that was away. */
  failures: string[] = [];
  /** A clock of a host was off in this run. */
  isClockOff = false;
  /** Errors in a log are no fault in a run in which a disk was full or a log away. */
  mayLogErrors = false;

  static async open({ paired, seed, relays: count = 1, postgres, main }: WorldOptions): Promise<MailWorld> {
    const random = new SeededRandom(~seed);
    const folder = await temporaryFolder();
    await cp(paired, folder, { recursive: true });
    const hasDisk = await hasOwnDisks();
    const relays: TortureRelay[] = [];
    for (let at = 0; at < count; at++) {
      const program = count > 1 ? relayProgram(at) : {};
      relays.push(
        postgres === undefined ? await SoloRelay.begin(random, program) : await SharedRelay.begin(postgres, random),
      );
    }
    const relayPorts = relays.map((relay) => () => relay.port);
    const hosts = await Promise.all(
      HOSTS.map((name) => PostHost.begin({ name, folder, random, relayPorts, hasDisk, main })),
    );
    const world = new MailWorld({ relays, hosts, folder });
    await Promise.all(hosts.map((host) => world.#join(host)));
    return world;
  }

  private constructor({ relays, hosts, folder }: Pick<MailWorld, 'relays' | 'hosts' | 'folder'>) {
    this.relays = relays;
    this.hosts = hosts;
    this.folder = folder;
    this.#agents = hosts.flatMap((host) => AGENTS.map((name) => ({ host, name, address: `${name}@${host.name}` })));
  }

  async #join(host: PostHost): Promise<void> {
    for (const name of AGENTS.slice(1)) await host.ask('add-agent', { name });
    for (const { name, lanAddress } of this.hosts.filter((other) => other !== host))
      await host.ask('peer-address', { host: name, address: lanAddress });
    for (const [at, { url }] of host.relayLinks.entries())
      await host.ask(at === 0 ? 'relay-set' : 'relay-add', { url });
    const states = await eventually(
      async () => {
        const { state, relays } = await host.ask('relay-status', {});
        return relays?.map((relay) => relay.state) ?? [state];
      },
      (all) => all.every((state) => state === 'ready'),
    );
    if (states.some((state) => state !== 'ready')) throw new Error(`relays are ${states.join()} for ${host.name}`);
  }

  get #hasFixedClock(): boolean {
    return this.relays.some(({ hasFixedClock }) => hasFixedClock);
  }

  get history(): History {
    return {
      asked: this.#asked,
      everAsked: this.#everAsked,
      acts: this.#acts,
      shown: this.#shown,
      restores: this.#restores,
      earlierRestores: this.#earlierRestores,
    };
  }

  /** A run begins: sessions of agents do as its seed says. */
  begin(seed: number): void {
    this.random = new SeededRandom(seed);
    this.#prefix = `seed ${seed}`;
    this.#asked = [];
    this.#earlierRestores.push(...this.#restores);
    this.#restores = [];
    this.#acts = [];
    this.#count = 0;
    this.failures = [];
    this.isClockOff = false;
    this.mayLogErrors = false;
    for (const relay of this.relays) relay.begins();
    this.#end = this.#drawnEnd(new SeededRandom(~seed));
    this.#sessions = new AbortController();
    const { signal } = this.#sessions;
    // Every call of every session listens.
    setMaxListeners(0, signal);
    this.#standIns = this.#agents.map(({ host, name: agent, address }) => {
      const onShown = (): (() => void) => {
        const act: Act = { agent: address, what: 'told', endedMs: Infinity };
        this.#shown.push({ agent: address, atMs: performance.now() });
        this.#acts.push(act);
        return () => {
          act.endedMs = performance.now();
        };
      };
      return standIn({ host, agent, manner: this.random.pick(MANNERS), onShown, signal });
    });
  }

  #drawnEnd(random: SeededRandom): RunEnd {
    if (this.relays.length === 1) return { dead: undefined, isFar: false };
    const isFar = random.chance(0.5);
    return { dead: random.chance(0.5) ? random.pick(this.relays) : undefined, isFar };
  }

  get messages(): number {
    return this.#asked.length;
  }

  /** An agent does something; nobody waits for it. */
  act(): void {
    const agent = this.random.pick(this.#agents);
    const choice = this.random.below(10);
    const doing =
      choice < 6
        ? this.#send(agent)
        : choice < 8
          ? this.#answer(agent)
          : this.#handle(agent, choice === 8 ? 'ack' : 'read');
    const done = doing.finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
    done.catch((error: unknown) => this.failures.push(String(error)));
  }

  #send(from: Agent): Promise<void> {
    const { random } = this;
    const to = this.#agents.filter((agent) => agent !== from && random.chance(0.25));
    if (to.length === 0) to.push(random.pick(this.#agents.filter((agent) => agent !== from)));
    const asked = this.#newMail(from);
    const words = `${asked.subject}: words`;
    const body = random.chance(0.03) ? words.padEnd(LONG_BODY_CHARACTERS, '.') : words;
    const addresses = to.map(({ address }) => address);
    const kind = random.pick(MESSAGE_KINDS.filter((one) => one !== 'reply'));
    const input = { to: addresses, subject: asked.subject, body, kind, idempotency_key: asked.subject };
    return this.#accepted(asked, from.host.ask('mail-send', input, from.name));
  }

  /** Looks at its mailbox, and replies to what is newest there. */
  async #answer(agent: Agent): Promise<void> {
    const { random } = this;
    const asked = this.#newMail(agent);
    const needs_reply = random.chance(0.3);
    const [newest] = await this.#look(agent, { limit: 3 });
    if (!newest || newest.from.startsWith('poste@')) return;
    const { subject } = asked;
    const input = { message_id: newest.message_id, subject, body: 'an answer', needs_reply, idempotency_key: subject };
    await this.#accepted(asked, agent.host.ask('mail-reply', input, agent.name));
  }

  async #handle(agent: Agent, action: 'ack' | 'read'): Promise<void> {
    const state = action === 'ack' ? 'unacked' : 'unread';
    const ids = (await this.#look(agent, { state, limit: 5 })).map(({ message_id }) => message_id);
    if (ids.length === 0) return;
    const what = action === 'ack' ? 'acked' : 'read';
    await this.#acting(agent, { what, ids }, { action, message_ids: ids });
  }

  async #look(agent: Agent, input: InboxInput): Promise<readonly MessageSummary[]> {
    return (await this.#acting(agent, { what: 'told' }, input)).summaries ?? [];
  }

  async #acting(agent: Agent, { what, ids }: Pick<Act, 'what' | 'ids'>, input: InboxInput): Promise<InboxResult> {
    const act: Act = { agent: agent.address, what, ...(ids && { ids }), endedMs: Infinity };
    this.#acts.push(act);
    const answer = await agent.host.ask('mail-inbox', input, agent.name);
    act.endedMs = performance.now();
    act.changed = answer.changed ?? [];
    return answer;
  }

  #newMail({ address: from }: Agent): Asked {
    const asked: Asked = { subject: `${this.#prefix}: message ${this.#count++}`, from, beganMs: performance.now() };
    this.#asked.push(asked);
    this.#everAsked.push(asked);
    return asked;
  }

  async #accepted(asked: Asked, sending: Promise<SendResult>): Promise<void> {
    try {
      const result = await sending;
      asked.accepted = { result, endedMs: performance.now() };
    } catch (error) {
      // A host that was restored meanwhile does not know what is answered.
      if (!(error instanceof CallFailed) || error.code !== 'NO_SUCH_MESSAGE') throw error;
    }
  }

  restored(restore: HostRestore): void {
    this.#restores.push(restore);
  }

  async setClocks(): Promise<void> {
    for (const relay of this.relays) await relay.setClock(this.#aheadMs);
    for (const host of this.hosts) await host.setClock(this.#aheadMs);
  }

  /** So much time passes for everybody. */
  async #later(ms: number): Promise<void> {
    this.#aheadMs += ms;
    await this.setClocks();
    for (const host of this.hosts) host.killAndBegin();
    await Promise.all(this.hosts.map((host) => host.daemon.ready()));
  }

  /**
   * Nothing goes wrong any more, whatever was asked is answered, and time goes by until nothing is on its way. Answers
   * what is on its way all the same.
   */
  async settle(): Promise<{ open: string[]; isSpent: boolean }> {
    const { dead, isFar } = this.#end;
    await dead?.goDown();
    await this.#heal(this.relays.filter((relay) => relay !== dead));
    if (isFar) for (const host of this.hosts) host.leaveLan();
    await Promise.all(this.hosts.map((host) => host.daemon.ready()));
    // Mail of before may have nothing to do with a relay that went down just now.
    if (dead) for (let count = 0; count < LAST_ACTS; count++) this.act();
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    this.#sessions.abort();
    await Promise.all(this.#standIns);
    if (dead || isFar) {
      await this.#settleOverRelays();
      await this.#heal(dead ? [dead] : []);
    }
    await Promise.all(this.hosts.map((host) => host.addRemoved()));
    // Behind a jump of the time such a relay is of no use.
    let open = await this.#stillOpen(this.#hasFixedClock ? STUCK_MS : STILL_MS);
    if (open.length > 0) {
      await this.#later(DOUBT_MS);
      // A host that was restored may wait for what never comes.
      open = await this.#stillOpen(this.#restores.length > 0 ? STILL_MS : STUCK_MS);
    }
    const isLate = open.length > 0 && this.#restores.length > 0;
    if (isLate) {
      await this.#later(TOLD_AFTER_MS);
      open = await this.#stillOpen(STUCK_MS);
    }
    const kept = await Promise.all(this.hosts.map((host) => host.ask('quarantine', {})));
    const isApart = this.#aheadMs > 0 && this.#hasFixedClock;
    return { open, isSpent: isLate || isApart || kept.some(({ total_items: items }) => items > 0) };
  }

  async #heal(relays: readonly TortureRelay[]): Promise<void> {
    for (const relay of relays) await relay.heal();
    for (const host of this.hosts) host.heal();
    await this.setClocks();
    // The removed one may be down.
    await Promise.allSettled(this.hosts.map((host) => host.addRemoved()));
  }

  /** The relays that are left carry all mail, unless a host or a relay was set back or a clock is off. */
  async #settleOverRelays(): Promise<void> {
    const open = await this.#stillOpen(STUCK_MS);
    if (this.#restores.length > 0 || this.isClockOff) return;
    const { dead, isFar } = this.#end;
    const away = [dead && 'a relay is down', isFar && 'nobody is on the LAN'].filter(Boolean).join(' and ');
    this.failures.push(...open.map((row) => `${row}, while ${away}`));
  }

  /** Returns what is on its way when nothing was, or when nothing moves any more. */
  async #stillOpen(stillMs: number): Promise<string[]> {
    const deadline = performance.now() + SETTLED_WITHIN_MS;
    let before = '';
    let sinceMs = performance.now();
    for (;;) {
      const rows = await rowsOnTheirWay(this.hosts);
      // Four calls of every daemon more: of use only when outboxes are at rest.
      const open = rows.length > 0 && rows.join() !== before ? rows : [...rows, ...(await this.#leftBehind())];
      const nowMs = performance.now();
      const text = rows.length > 0 ? rows.join() : open.join();
      if (text !== before) [before, sinceMs] = [text, nowMs];
      if (open.length === 0 || nowMs > deadline || nowMs - sinceMs > stillMs) return open;
      await elapsed(LOOKED_EVERY_MS);
    }
  }

  #leftBehind(): Promise<string[]> {
    const { hosts, history, isClockOff } = this;
    return leftBehind({
      hosts,
      history,
      isClockOff,
      sent: () => this.#sent(),
    });
  }

  async #sent(): Promise<Map<string, Map<string, string[]>>> {
    const sent = new Map<string, Map<string, string[]>>();
    const pages = await Promise.all(this.#agents.map((agent) => this.#sentOf(agent)));
    for (const { message_id: id, recipients } of pages.flat()) {
      const states = recipients.map(({ recipient, state, steps }): [string, string[]] => [
        recipient,
        [...steps.map((step) => step.state), state],
      ]);
      sent.set(id, new Map(states));
    }
    return sent;
  }

  async #sentOf({ host, name }: Agent): Promise<OutputOf<'mail-sent'>['messages']> {
    const { messages } = await host.ask('mail-sent', { limit: 100 }, name);
    return messages;
  }

  /** Returns how many rows of this run more than one relay took, as far as their hosts know. */
  async takenByTwo(): Promise<number> {
    const taken = this.#asked.map(async ({ from, accepted }) => {
      const host = this.hosts.find(({ name }) => from.endsWith(`@${name}`));
      if (!accepted || !host) return 0;
      try {
        const { rows } = await host.ask('trace', { message_id: accepted.result.message_id });
        return rows.filter(({ relays = [] }) => relays.length > 1).length;
      } catch (error) {
        if (error instanceof CallFailed && error.code === 'NO_SUCH_MESSAGE') return 0;
        throw error;
      }
    });
    return (await Promise.all(taken)).reduce((sum, count) => sum + count, 0);
  }

  /** To be called when all has settled. A look at a mailbox makes receipts, so what senders know is read before. */
  async seen(open: readonly string[]): Promise<Seen> {
    const sent = await this.#sent();
    const boxes = new Map<string, Mail[]>();
    const woken = new Set<string>();
    const reported = new Set<string>();
    for (const host of this.hosts) {
      const { sessions } = await host.ask('session-list', {});
      for (const { agent, woken_by: by } of sessions) if (by !== null) woken.add(`${agent}@${host.name}`);
      const owned = await this.#mailbox({ host, name: 'owner', address: `owner@${host.name}` });
      if (owned.some(({ subject }) => subject === 'Restored from a backup')) reported.add(host.name);
    }
    for (const agent of this.#agents) boxes.set(agent.address, await this.#mailbox(agent));
    return { sent, boxes, woken, open, reported };
  }

  async #mailbox({ host, name }: Agent): Promise<Mail[]> {
    const summaries = await wholeMailbox((input) => host.ask('mail-inbox', input, name));
    return summaries.map((summary) => {
      const { message_id: messageId, subject, from, kind, reply_to: replyTo } = fullSummary(summary, name);
      return { messageId, subject, from, kind, replyTo };
    });
  }
}
