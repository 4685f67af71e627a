import { expect, test } from 'vitest';
import {
  QUARANTINE_BOUNDS,
  QUARANTINE_ROOMS,
  bareScopeOf,
  scopesOf,
  shareOfKey,
} from '../../../../src/host/core/quarantine.ts';

test('what a paired host or a relay brings counts in its share and its room; a full one keeps what came first', () => {
  for (const room of ['hosts', 'relays'] as const) {
    const bounds = QUARANTINE_BOUNDS[room];
    expect(scopesOf({ room, share: 'peer-1' })).toEqual([
      { name: `${room}/peer-1`, bounds: bounds.host, isOldestDropped: false },
      { name: room, bounds: bounds.all, isOldestDropped: false },
    ]);
  }
});

test('what comes under a key that is nobody’s counts in that of all such keys too', () => {
  const bounds = QUARANTINE_BOUNDS.strangers;
  expect(scopesOf({ room: 'strangers', share: shareOfKey('K') })).toEqual([
    { name: 'strangers/key:K', bounds: bounds.key, isOldestDropped: true },
    { name: 'strangers/unknown', bounds: bounds.unknown, isOldestDropped: true },
    { name: 'strangers', bounds: bounds.all, isOldestDropped: true },
  ]);
});

test('what is kept without its bytes has a room of its own, whose oldest go first', () => {
  for (const room of QUARANTINE_ROOMS) {
    const { bare } = QUARANTINE_BOUNDS[room];
    expect(bareScopeOf(room)).toEqual({ name: `${room}/bare`, bounds: bare, isOldestDropped: true });
  }
});
