import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isWanted, loggedEvent } from '../../../../src/relay/operator/log-search.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { EVENT_TYPES } from '../../../../src/relay/store/record.ts';
import { anyEvent } from '../../../../src/library/arbitraries.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, hostNamed } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const EVERYTHING = { beforeLsn: 0, afterLsn: 0, sinceMs: 0, untilMs: Number.MAX_SAFE_INTEGER };
const isAbout = (event: RelayEvent, keys: Set<string>) => isWanted(event, { ...EVERYTHING, keys });
const isOfItem = (event: RelayEvent, itemId: string) => isWanted(event, { ...EVERYTHING, itemId });
const shown = (event: RelayEvent) => loggedEvent({ lsn: 7, event }, (key) => (key === alice.key ? 'alice' : undefined));

test('every kind of event has words of its own', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(anyEvent, (event) => {
      seen.add(event.type);
      const { hosts, facts, type } = shown(event);
      expect(type).toBe(event.type);
      expect(facts.every(({ name }) => name !== '')).toBe(true);
      expect(hosts.every(({ host_pubkey }) => isAbout(event, new Set([host_pubkey])))).toBe(true);
    }),
    { numRuns: 600 },
  );
  expect(EVENT_TYPES.filter((type) => !seen.has(type))).toEqual([]);
});

describe('what a restore leaves in the log is told', () => {
  test('which backup it was, and what it replaced', () => {
    const event: RelayEvent = {
      type: 'RelayRestored',
      epoch: epochNumbered(3),
      backupEpoch: epochNumbered(1),
      backupLsn: 40,
      backupCreatedAtMs: NOON_MS,
      replacedEpoch: epochNumbered(2),
      replacedLsn: 90,
      earlier: [],
      atMs: NOON_MS + 1,
    };
    expect(shown(event)).toMatchObject({ lsn: 7, type: 'RelayRestored', at: NOON_MS + 1 });
    expect(shown(event).facts).toEqual([
      { name: 'epoch', value: epochNumbered(3) },
      { name: 'backup of', value: new Date(NOON_MS).toISOString() },
      { name: 'epoch of the backup', value: epochNumbered(1) },
      { name: 'last record of the backup', value: '40' },
      { name: 'epoch that was replaced', value: epochNumbered(2) },
      { name: 'last record that was replaced', value: '90' },
    ]);
    const intoNothing = shown({ ...event, replacedEpoch: null, replacedLsn: null });
    expect(intoNothing.facts).toHaveLength(4);
  });

  test('whose sequence numbers were raised, a hundred of them by name', () => {
    const floors = [alice, bob, ...Array.from({ length: 200 }, (_none, at) => hostNamed(`host ${at}`))].map(
      ({ key: targetPubkey }) => ({ targetPubkey, headSeq: 9 }),
    );
    const event: RelayEvent = { type: 'SeqFloorsRaised', floors, atMs: NOON_MS };
    const { hosts, facts } = shown(event);
    expect([hosts.length, hosts[0]]).toEqual([100, { role: 'host', host_pubkey: alice.key, name: 'alice' }]);
    expect(facts).toEqual([{ name: 'queues', value: '202' }]);
    // Also those that are not shown are found.
    expect(isAbout(event, new Set([hostNamed('host 199').key]))).toBe(true);
  });

  test('and which schema a store was brought to', () => {
    expect(shown({ type: 'SchemaMigrated', schemaVersion: 2, atMs: NOON_MS }).facts).toEqual([
      { name: 'schema', value: '2' },
    ]);
  });
});

test('an item is found by its id also in a late ack of it', () => {
  const items = [{ itemId: 'm1', senderPubkey: alice.key, pushedTo: bob.key }];
  const event = { type: 'DedupExtended', targetPubkey: bob.key, items, dedupUntilMs: 1, atMs: 1 } as RelayEvent;
  expect([isOfItem(event, 'm1'), isOfItem(event, 'm2')]).toEqual([true, false]);
});
