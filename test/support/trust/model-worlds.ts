/**
 * Random histories of a few hosts and one relay: honest, with a peer that lies, careless, and a lie each. `playWorld`
 * plays one, until everybody spoke with everybody and nothing is owed any more; and longer, up to four hours, while a
 * lie goes unseen, since hosts meet by chance.
 */
import type { Epoch } from '../../../src/protocol/names.ts';
import { makeKnew, noteHash, type SeenEntry } from '../../../src/protocol/seen.ts';
import { relay as relayHost } from '../hosts.ts';
import { SeededRandom } from '../seeded-random.ts';
import { ModelHost } from './model-host.ts';
import { ModelRelay, ModelStore } from './model-relay.ts';

export const LIES = [
  'fork',
  'fork, refused',
  'shrink',
  'freeze',
  'cut link',
  'epoch fork',
  'left out',
  'fork healed',
  'rewrite',
  'see-saw',
  'old epoch again',
  'copy put back',
] as const;
export type Lie = (typeof LIES)[number];
export type WorldKind = Lie | 'honest' | 'lying peer' | 'careless';

export interface World {
  kind: WorldKind;
  relay: ModelRelay;
  hosts: ModelHost[];
  /** Those who are lied to. */
  victims: string[];
  /** False when the lie shows nothing that anybody could know: nobody had seen what it takes away. */
  isToBeSeen: boolean;
}

/** What happens at a minute to come. */
interface Planned {
  minute: number;
  act: () => void;
}

interface Play extends World {
  random: SeededRandom;
  backups: ModelStore[];
  copies: ModelStore[];
  recent: ModelStore;
  saved: Map<string, ReturnType<ModelHost['saved']>>;
  planned: Planned[];
  each: (() => void)[];
  lateness: number;
}

export function playWorld(kind: WorldKind, seed: number, isSeen: (world: World) => boolean = () => true): World {
  const random = new SeededRandom(seed * 977 + kind.length * 31);
  const relay = new ModelRelay(random);
  relay.isFlaky = random.chance(0.3);
  const hosts = ['a', 'b', 'c', 'd']
    .slice(0, random.pick([2, 2, 2, 3, 3, 4]))
    .map((name) => new ModelHost(name, relay, random));
  const play: Play = {
    kind,
    relay,
    hosts,
    victims: victimsOf(hosts, random),
    isToBeSeen: true,
    random,
    backups: [],
    copies: [],
    recent: relay.store.copy(),
    saved: new Map(),
    planned: [],
    each: [],
    lateness: random.pick([0, 0, 0.3]),
  };
  if (kind === 'lying peer') play.each.push(lyingPeer(play));
  const lie = LIES.find((one) => one === kind);
  if (lie === 'left out') play.victims = [random.pick(hosts).name];
  const minutes = 45 + random.below(50);
  const liesAt = lie ? 15 + random.below(minutes - 25) : Infinity;
  for (let minute = 0; minute < minutes; minute++) {
    if (minute === liesAt) tell(play, lie!);
    if (minute < liesAt && random.chance(kind === 'careless' ? 0.06 : 0.04)) honestEvent(play);
    if (minute % 15 === 0) play.recent = relay.store.copy();
    passMinute(play);
  }
  settle(play, isSeen);
  return play;
}

function victimsOf(hosts: readonly ModelHost[], random: SeededRandom): string[] {
  const names = hosts.map(({ name }) => name);
  const some = names.filter(() => random.chance(0.5));
  return some.length === 0 || some.length === names.length ? [random.pick(names)] : some;
}

function passMinute({ relay, hosts, random, planned, each, lateness }: Play): void {
  relay.minute++;
  for (const act of each) act();
  for (const { minute, act } of planned) if (minute === relay.minute) act();
  for (const host of hosts) {
    const to = random.pick(hosts);
    if (random.chance(0.1) && to !== host) host.send(to.name);
    host.step(random.chance(lateness));
  }
  const [one, other] = [random.pick(hosts), random.pick(hosts)];
  if (random.chance(0.05) && one !== other) meet(one, other);
  if (random.chance(0.05) && one !== other) talk(one, other);
}

/** Mail to and fro between two looks, while each says what it has heard. */
function talk(one: ModelHost, other: ModelHost): void {
  for (let nth = 0; nth < 4; nth++) {
    one.send(other.name);
    for (const host of [one, other, one]) host.exchange();
  }
}

/** They exchange over the LAN what they have seen. */
function meet(one: ModelHost, other: ModelHost): void {
  for (const host of [one, other]) host.lookBeforeTelling();
  const [fromOne, fromOther] = [one.seen(), other.seen()];
  one.hear(other.name, fromOther);
  other.hear(one.name, fromOne);
}

/** The end of every history: nothing fails any more, everybody meets everybody, and what is owed is done. */
function settle(play: Play, isSeen: (world: World) => boolean): void {
  const { relay, hosts, random } = play;
  play.lateness = 0;
  relay.isFlaky = false;
  relay.downUntil = 0;
  relay.lagging = undefined;
  for (const host of hosts) host.asleepUntil = 0;
  for (let nth = 0; nth < 60 || (nth < 240 && !isSeen(play)); nth++) {
    if (nth % 5 === 0)
      for (const one of hosts) for (const other of hosts) if (one !== other && random.chance(0.4)) meet(one, other);
    passMinute(play);
  }
  const isPushAwaited = !relay.isLying || play.kind === 'fork healed';
  const dueMinutes = isPushAwaited ? 1500 : 0;
  for (let nth = 0; nth < dueMinutes && hosts.some((host) => host.isPushDue); nth++) passMinute(play);
  for (let nth = 0; nth < 35; nth++) {
    relay.minute++;
    for (const act of play.each) act();
    for (const host of hosts) host.step(false);
  }
}

/** What happens to honest relays and hosts; and in a careless world a copy that is put back without a new epoch. */
function honestEvent(play: Play): void {
  const { kind, relay, hosts, random, backups, copies, saved } = play;
  const host = random.pick(hosts);
  const events: [weight: number, act: () => void][] = [
    [10, () => relay.store.rotate()],
    [10, () => void backups.push(relay.store.copy())],
    [14, () => restoreBackup(play)],
    [4, () => void (relay.store = new ModelStore())],
    [8, () => loseEnd(play)],
    [12, () => void (relay.downUntil = relay.minute + random.below(25))],
    [12, () => void (relay.lagging = { store: play.recent, until: relay.minute + 2 + random.below(3) })],
    [5, () => void saved.set(host.name, host.saved())],
    [5, () => host.restore(saved.get(host.name) ?? host.saved())],
    [10, () => void (host.asleepUntil = relay.minute + random.below(60))],
  ];
  if (kind === 'careless') {
    events.push([20, () => void copies.push(relay.store.copy())]);
    events.push([20, () => void (relay.store = copies.length > 0 ? random.pick(copies).copy() : relay.store)]);
  }
  let at = random.below(events.reduce((sum, [weight]) => sum + weight, 0));
  for (const [weight, act] of events) {
    if (at < weight) return act();
    at -= weight;
  }
}

/** Maybe of one backup twice. */
function restoreBackup({ relay, random, backups }: Play): void {
  if (backups.length === 0) return;
  relay.store = random.pick(backups).copy();
  relay.store.rotate();
}

/** The end of the log was lost, and a new epoch says so. */
function loseEnd({ relay, random }: Play): void {
  const { size } = relay.store.tip;
  if (size <= 3 || !random.chance(0.5)) return;
  relay.store.rotate(size - 2);
}

/** A peer that replays what the relay signed for it, after notes of others that it was told. */
function lyingPeer({ relay, hosts, random }: Play): () => void {
  const told: SeenEntry[] = [];
  return () => {
    if (!random.chance(0.2)) return;
    const host = random.pick(hosts);
    told.push(...host.seen());
    const known = Array.from({ length: Math.min(4, told.length) }, () => noteHash(random.pick(told).checkpoint));
    const knew = makeKnew(known, (count) => random.bytes(count));
    const answer = relay.answer('z', { ask: 'head', knew });
    if (answer.type !== 'answer') return;
    told.push({ relay: relayHost.key, checkpoint: answer.document as string, knew: knew.toString('base64') });
    const entry = random.pick(told);
    // Sometimes with an order that the relay did not sign.
    host.hear('z', [random.chance(0.7) ? entry : { ...entry, knew: random.pick(told).knew }]);
  };
}

function tell(play: Play, lie: Lie): void {
  const { relay, hosts, victims, random, copies, planned } = play;
  relay.isLying = lie !== 'copy put back';
  const { store } = relay;
  const show = (other: ModelStore): void => victims.forEach((host) => relay.views.set(host, other));
  switch (lie) {
    case 'fork':
    case 'fork, refused': {
      const other = store.copy();
      other.tip.append('for the victims');
      store.tip.append('for the others');
      show(other);
      relay.isBridged = random.chance(0.5);
      if (lie === 'fork, refused') relay.refuses = () => true;
      return;
    }
    case 'shrink': {
      const other = store.copy();
      play.isToBeSeen = other.tip.size > 1;
      other.cut(Math.max(1, other.tip.size - 2 - random.below(3)));
      show(other);
      relay.isBridged = true;
      return;
    }
    case 'freeze':
      for (const host of victims) relay.frozen.set(host, { log: store.tip, size: store.tip.size });
      return;
    case 'cut link':
      play.isToBeSeen = hosts.some(({ newest }) => newest);
      store.rotate();
      relay.cutLinks.add(store.tip.epoch);
      return;
    case 'epoch fork': {
      const other = store.copy();
      other.rotate();
      if (random.chance(0.5)) store.rotate();
      show(other);
      relay.isBridged = random.chance(0.5);
      // Without `after` nobody can tell which epoch is the newer one.
      play.isToBeSeen = relay.givesAfter;
      return;
    }
    case 'left out':
      relay.leavesOut = (host) => victims.includes(host);
      for (const host of hosts.filter(({ name }) => victims.includes(name)))
        host.send(hosts.find(({ name }) => name !== host.name)!.name);
      return;
    case 'fork healed':
      show(store.copy());
      planned.push({ minute: relay.minute + 3 + random.below(6), act: () => relay.views.clear() });
      return;
    case 'rewrite':
      play.isToBeSeen = hosts.some((host) =>
        host.kept.some(({ epoch, size }) => epoch === store.tip.epoch && size > 1),
      );
      rewrite(store);
      return;
    case 'see-saw': {
      const low = { log: store.tip, size: Math.max(1, store.tip.size - 4) };
      relay.refuses = (host) => victims.includes(host);
      play.each.push(() => {
        for (const host of victims)
          if (relay.minute % 6 < 3) relay.frozen.set(host, low);
          else relay.frozen.delete(host);
      });
      return;
    }
    case 'old epoch again': {
      const old = store.copy();
      store.rotate();
      const { epoch } = store.tip;
      planned.push({ minute: relay.minute + 25, act: () => putBack(play, old, epoch) });
      return;
    }
    case 'copy put back': {
      const copy = (copies.at(-1) ?? store).copy();
      planned.push({ minute: relay.minute + 2 + random.below(9), act: () => void (relay.store = copy) });
    }
  }
}

/** The past of the epoch is another, and a new one begins. */
export function rewrite(store: ModelStore): void {
  const { tip } = store;
  const rewritten = tip.copy(1);
  while (rewritten.size < tip.size + 2) rewritten.append(`rewritten ${rewritten.size}`);
  for (const [id, { epoch }] of store.accepted) if (epoch === tip.epoch) store.accepted.delete(id);
  store.tip = rewritten;
  store.rotate();
}

function putBack(play: Play, old: ModelStore, newer: Epoch): void {
  const saw = ({ kept, trust }: ModelHost): boolean =>
    kept.some(({ epoch }) => epoch === newer) && trust.left.includes(old.tip.epoch);
  play.isToBeSeen = play.hosts.some(saw);
  play.relay.store = old;
}
