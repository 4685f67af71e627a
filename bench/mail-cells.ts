/**
 * Cells of mail between two hosts, end to end: sealed, signed, stored and synced by its sender, over the LAN or a
 * relay, verified, opened, stored and synced by its receiver, and the receipt back. Hosts and relay are processes of
 * their own, as they are on their machines.
 */
import { costOf } from './cpu.ts';
import { NAMED_THREADS } from './cpu-seconds.ts';
import { quantile } from './figures.ts';
import { mailFloor } from './mail-floor.ts';
import { MailPair, type Ways } from './mail-hosts.ts';
import type { Depth } from './push-pull.ts';
import { type Figure, more } from './report.ts';

const MESSAGES = 2000;
/**
 * Sent before, by the floor too: daemons run for days, and a new process compiles what it runs for its first messages.
 */
const WARMING = 3000;
/**
 * Then hosts write in turns until each has heard what the other tells of the relay once a look, which is every ten
 * minutes. Mail that is queued before rides with it.
 */
const TURNS = 5;

/** Senders that each wait until their message is durable before they send again. */
const SENDERS = 50;
const ONE_BY_ONE = 200;
const LAN: Ways = { lan: true, relay: false };
const RELAY: Ways = { lan: false, relay: true };

export async function mailEndToEnd({ isWhole }: Depth): Promise<Figure[]> {
  return [...(await mailOver('relay', RELAY, 1600, isWhole)), ...(await mailOver('LAN', LAN, 2000, isWhole))];
}

async function mailOver(over: string, ways: Ways, goal: number, isWhole: boolean): Promise<Figure[]> {
  const floorS = isWhole ? await floorSeconds(ways) : undefined;
  const pair = await MailPair.begin(ways, NAMED_THREADS);
  try {
    await pair.confirmed(() => pair.send(WARMING, SENDERS), WARMING);
    for (let turn = 0; turn < TURNS; turn++) await pair.confirmed(() => pair.send(SENDERS, SENDERS), SENDERS);
    const machines = Object.entries(pair.pids).map(([machine, pid]) => ({ machine, cost: costOf(pid) }));
    for (const { cost } of machines) cost.begin();
    const startedMs = performance.now();
    await pair.confirmed(() => pair.send(MESSAGES, SENDERS), MESSAGES);
    const seconds = (performance.now() - startedMs) / 1000;
    const costs = machines.flatMap(({ machine, cost }) => cost.figures(`over a ${over}, ${machine}`, MESSAGES));
    const rate = more(`over a ${over}`, 'messages/s', MESSAGES / seconds, goal);
    if (floorS === undefined) return [rate, ...costs];
    const floorRate = more(`${over} floor`, 'messages/s', MESSAGES / floorS);
    return [rate, floorRate, more(`over a ${over} / floor`, 'ratio', floorS / seconds, 0.5), ...costs];
  } finally {
    await pair.end();
  }
}

async function floorSeconds({ relay: isRelayed }: Ways): Promise<number> {
  await mailFloor({ messages: WARMING, senders: SENDERS, isRelayed });
  return mailFloor({ messages: MESSAGES, senders: SENDERS, isRelayed });
}

export async function oneMessage(): Promise<Figure[]> {
  return [...(await oneByOne('LAN', LAN)), ...(await oneByOne('relay', RELAY)), await afterTheLan()];
}

async function oneByOne(over: string, ways: Ways): Promise<Figure[]> {
  const pair = await MailPair.begin(ways);
  const sentMs: number[] = [];
  const arrivedMs: number[] = [];
  const confirmedMs: number[] = [];
  try {
    for (let sent = 0; sent < ONE_BY_ONE; sent++) {
      let startedMs = 0;
      const took = (of: number[]) => (): void => void of.push(performance.now() - startedMs);
      const send = async (): Promise<void> => {
        startedMs = performance.now();
        sentMs.push(...(await pair.send(1, 1)));
      };
      await pair.confirmed(() => pair.arrived(send).then(took(arrivedMs)), 1).then(took(confirmedMs));
    }
  } finally {
    await pair.end();
  }
  const figure = (what: string, ms: number[], q: number, goal?: number): Figure => {
    const name = `over a ${over}: ${what}, p${q * 100}`;
    return { name, unit: 'ms', better: 'less', values: [quantile(ms, q)], ...(goal !== undefined && { goal }) };
  };
  return [
    figure('mail_send to a paired host', sentMs, 0.5, 5),
    figure('until it has arrived', arrivedMs, 0.5, 15),
    figure('until it has arrived', arrivedMs, 0.99),
    figure('until its sender knows', confirmedMs, 0.5),
    figure('until its sender knows', confirmedMs, 0.99),
  ];
}

/** The first message to a host that the LAN does not reach any more, until it has arrived over the relay. */
async function afterTheLan(): Promise<Figure> {
  const pair = await MailPair.begin({ lan: true, relay: true });
  try {
    await pair.loseLan();
    const startedMs = performance.now();
    await pair.arrived(() => pair.send(1, 1));
    const values = [(performance.now() - startedMs) / 1000];
    return { name: 'the first after the LAN went, until it has arrived', unit: 's', better: 'less', values, goal: 3 };
  } finally {
    await pair.end();
  }
}
