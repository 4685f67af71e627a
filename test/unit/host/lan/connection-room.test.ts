/** Who is let in when the listener is full, and who has to go. */
import { expect, test } from 'vitest';
import {
  ADDRESS_CONNECTIONS_MAX,
  CONNECTIONS_MAX,
  ConnectionRoom,
  STRANGER_CONNECTIONS_MAX,
} from '../../../../src/host/lan/caller-limits.ts';

class Wire {
  bytesRead = 0;
  isEnded = false;

  destroy(): void {
    this.isEnded = true;
  }
}

function given(clock = { nowMs: 0 }) {
  const room = new ConnectionRoom(() => clock.nowMs);
  /** What is let in; what is not is ended. */
  const enter = (address: string): Wire => {
    const wire = new Wire();
    if (!room.enter(wire, address)) wire.destroy();
    clock.nowMs++;
    return wire;
  };
  const many = (count: number, address: string): Wire[] => Array.from({ length: count }, () => enter(address));
  const paired = (address: string): Wire => {
    const wire = enter(address);
    room.notePaired(wire);
    return wire;
  };
  return { room, clock, enter, many, paired };
}

/** From eight addresses at least: as many as there may be. */
function flood({ many }: ReturnType<typeof given>, from = 0): Wire[] {
  return Array.from({ length: 9 }, (_, at) => many(ADDRESS_CONNECTIONS_MAX, `10.0.0.${from + at}`)).flat();
}

function open(wires: readonly Wire[]): number {
  return wires.filter(({ isEnded }) => !isEnded).length;
}

test('strangers leave room, and a paired host is let in whatever they open', () => {
  const g = given();
  g.room.setKnown(['192.168.1.7']);
  const strangers = flood(g);
  expect(open(strangers)).toBe(STRANGER_CONNECTIONS_MAX);
  const known = g.many(3, '192.168.1.7');
  expect(open(known)).toBe(3);
  expect(open(strangers)).toBe(STRANGER_CONNECTIONS_MAX);
  const later = flood(g, 100);
  expect(open(known)).toBe(3);
  expect(open([...strangers, ...later])).toBe(STRANGER_CONNECTIONS_MAX);
  expect(g.room.size).toBe(STRANGER_CONNECTIONS_MAX + 3);
});

test('a paired host at an address that nobody knows yet stays through a flood, and is known once it has proved itself', () => {
  const g = given();
  flood(g);
  const moved = g.enter('192.168.1.8');
  expect(moved.isEnded).toBe(false);
  // Its address has one, the others have many.
  flood(g, 100);
  expect(moved.isEnded).toBe(false);
  g.room.notePaired(moved);
  g.room.leave(moved);
  const again = g.enter('192.168.1.8');
  flood(g, 200);
  expect(again.isEnded).toBe(false);
});

test('the idlest of the address that has most goes first; what was read from or asked something is not idle', () => {
  const g = given();
  const quiet = g.enter('10.0.0.200');
  const address = '10.0.0.1';
  const wires = g.many(ADDRESS_CONNECTIONS_MAX, address);
  wires[0]!.bytesRead = 5;
  g.room.noteRequest(wires[1] as Wire);
  const next = g.enter(address);
  expect(next.isEnded).toBe(false);
  expect(wires.flatMap(({ isEnded }, at) => (isEnded ? [at] : []))).toEqual([2]);
  expect(quiet.isEnded).toBe(false);
  // What moved once and then no more is idle again.
  g.clock.nowMs += 1_000;
  for (const wire of [...wires.slice(1), next]) g.room.noteRequest(wire);
  g.enter(address);
  expect(wires[0]?.isEnded).toBe(true);
});

test('a paired host never has to make room for others, not even at its own address', () => {
  const g = given();
  const proven = Array.from({ length: ADDRESS_CONNECTIONS_MAX - 1 }, () => g.paired('192.168.1.9'));
  const unproven = g.enter('192.168.1.9');
  const next = g.enter('192.168.1.9');
  expect([unproven.isEnded, next.isEnded, open(proven)]).toEqual([true, false, ADDRESS_CONNECTIONS_MAX - 1]);
  g.room.notePaired(next);
  expect(g.enter('192.168.1.9').isEnded).toBe(true);
});

test('full of paired hosts, those who have not proved themselves yet make room, and then nobody', () => {
  const g = given();
  const proven = Array.from({ length: CONNECTIONS_MAX - 1 }, (_, at) => g.paired(`192.168.2.${Math.floor(at / 60)}`));
  const stranger = g.enter('10.0.0.1');
  const known = g.enter('192.168.2.0');
  expect([stranger.isEnded, known.isEnded]).toEqual([true, false]);
  const other = g.enter('192.168.2.1');
  expect([known.isEnded, other.isEnded]).toEqual([true, false]);
  g.room.notePaired(other);
  expect(g.enter('10.0.0.1').isEnded).toBe(true);
  expect(open(proven)).toBe(CONNECTIONS_MAX - 1);
  g.room.leave(other);
  expect(g.enter('10.0.0.1').isEnded).toBe(false);
});

test('addresses of one IPv6 network are one address, and a link-local one counts by itself', () => {
  const g = given();
  const first = g.many(ADDRESS_CONNECTIONS_MAX, 'fd00::1');
  g.enter('fd00::2');
  expect(open(first)).toBe(ADDRESS_CONNECTIONS_MAX - 1);
  g.enter('fe80::1%eth0');
  expect(open(first)).toBe(ADDRESS_CONNECTIONS_MAX - 1);
});
