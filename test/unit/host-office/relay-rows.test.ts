import { expect, test } from 'vitest';
import type { RelayRow } from '../../../src/host/core/rows.ts';
import { type RelayScope, addToEnrolment, dropEnrolment, enrolmentIn } from '../../../src/host/office/relay-rows.ts';
import { noteSeenKey, pinRelay, putEnrolment } from '../../../src/host/office/relay-rows.ts';
import { alice, hostNamed, relay } from '../../support/hosts.ts';
import { type TestOffice, testOffice } from '../../support/test-office.ts';

const url = 'https://relay.example';
const another = hostNamed('another-relay').key;
const scope: RelayScope = { relayPubkey: relay.key, epoch: 'FIRST' as never, hostPubkey: alice.key };
const known = {
  checkedAtMs: 0,
  authorizedBy: 'host-key' as const,
  account: null,
  isCrowded: false,
  validUntilMs: null,
  encKey: null,
  senders: null,
};

function pinned(office: TestOffice): Promise<RelayRow> {
  return office.store.transact((tx) => {
    const row = { ...pinRelay(tx, office, { url, pubkey: relay.key, proof: null }), epoch: scope.epoch };
    tx.put('relay', [], row);
    return row;
  });
}

test('a key that the former relay showed is not held against the one that the owner set meanwhile', async () => {
  const office = await testOffice();
  const asked = await pinned(office);
  await office.store.transact((tx) => {
    pinRelay(tx, office, { url, pubkey: another, proof: null });
    noteSeenKey(tx, office, asked, another);
  });
  expect(await office.store.read((reader) => reader.get('relay'))).toMatchObject({ pubkey: another, seenKey: null });
});

test('what follows an enrolment does not bring back one that was dropped', async () => {
  const office = await testOffice();
  await pinned(office);
  const encKey = { encPub: 'x', at: 1, checkedAtMs: 1 };
  await office.store.transact((tx) => {
    putEnrolment(tx, scope, known);
    addToEnrolment(tx, scope, { ...known, encKey });
  });
  expect(await office.store.read((reader) => enrolmentIn(reader, scope))).toMatchObject({ encKey });
  await office.store.transact((tx) => {
    dropEnrolment(tx, scope);
    addToEnrolment(tx, scope, { ...known, encKey });
  });
  expect(await office.store.read((reader) => enrolmentIn(reader, scope))).toBeUndefined();
});
