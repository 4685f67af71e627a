import { expect, test } from 'vitest';
import type { ItemId } from '../../../src/protocol/names.ts';
import type { Address, MessageRef } from '../../../src/host/core/rows.ts';
import { addOutboxRow } from '../../../src/host/office/outbox-rows.ts';
import { afterAttempt, nextDueMs } from '../../../src/host/office/outbox.ts';
import { currentKey, pinPeer } from '../../../src/host/office/peers.ts';
import { accepted, addPeer } from '../../support/mail-office.ts';
import { testOffice } from '../../support/test-office.ts';

test('pairing again with a host makes what waits for it due at once', async () => {
  const office = await testOffice();
  const peer = await addPeer(office, 'there');
  const { peerId, hostName, encKey } = peer;
  const { publicKey } = currentKey(peer);
  await office.store.transact((tx) => {
    tx.put('peerKey', [publicKey], peerId);
    tx.put('peerName', ['there'], peerId);
    const item = { kind: 'envelope' as const, itemId: 'm1' as ItemId, ref: 'm1' as MessageRef, peerId };
    const { rowId } = addOutboxRow(tx, office, {
      ...item,
      recipients: ['bob@there' as Address],
      wire: Buffer.from('x'),
    });
    for (let failures = 0; failures < 5; failures++)
      afterAttempt(tx, office, rowId, { type: 'lan-failed', reason: 'x' });
  });
  const waits = await office.store.read((reader) => nextDueMs(reader, peerId));
  expect(waits).toBeGreaterThan(office.nowMs());
  accepted(await office.store.transact((tx) => pinPeer(tx, office, { hostName, publicKey, encKey, address: null })));
  expect(await office.store.read((reader) => nextDueMs(reader, peerId))).toBe(office.nowMs());
  expect(office.told).toContainEqual({ type: 'outbox-changed', peerId });
});
