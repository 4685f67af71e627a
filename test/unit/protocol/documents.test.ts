import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../src/protocol/canonical-json.ts';
import type { Sha256Hex } from '../../../src/protocol/digest.ts';
import { DELIVERY_STATES, acceptReceipt, enrolClaim, expiryNotice } from '../../../src/protocol/documents.ts';
import type { Epoch } from '../../../src/protocol/epoch.ts';
import type { ItemId } from '../../../src/protocol/names.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';

const enrol = enrolClaim({
  challenge: 'Q',
  relay_pubkey: 'R' as PublicKey,
  host: 'h',
  pubkey: 'P' as PublicKey,
  owner_fp: '',
});
const accept = acceptReceipt({
  relay_pubkey: 'R' as PublicKey,
  epoch: 'E' as Epoch,
  sender_pubkey: 'S' as PublicKey,
  item_id: 'm1' as ItemId,
  targets: [{ host_pubkey: 'T' as PublicKey, seq: 7, wire_hash: 'ff' as Sha256Hex }],
  at: 1,
});
const expiry = expiryNotice({
  item_id: 'm1' as ItemId,
  target_pubkey: 'T' as PublicKey,
  accepted_at: 1,
  expired_at: 2,
});

describe('signed documents: exactly the members that are signed', () => {
  it('what a host signs to enrol', () => {
    expect(canonicalJson(enrol)).toBe(
      '{"challenge":"Q","host":"h","owner_fp":"","pubkey":"P","relay_pubkey":"R","type":"relay-enrol","v":1}',
    );
  });

  it('the accept receipt', () => {
    expect(canonicalJson(accept)).toBe(
      '{"at":1,"epoch":"E","item_id":"m1","relay_pubkey":"R","sender_pubkey":"S","targets":[{"host_pubkey":"T","seq":7,"wire_hash":"ff"}],"type":"relay-accept","v":1}',
    );
  });

  it('the expiry notice', () => {
    expect(canonicalJson(expiry)).toBe(
      '{"accepted_at":1,"expired_at":2,"item_id":"m1","target_pubkey":"T","type":"relay-expired","v":1}',
    );
  });

  it('each has `v` and a `type` of its own, so that no signature is good for two kinds', () => {
    const documents = [enrol, accept, expiry];
    expect(documents.map(({ v }) => v)).toEqual([1, 1, 1]);
    expect(new Set(documents.map(({ type }) => type)).size).toBe(documents.length);
  });

  it('the delivery states stand in rank order', () => {
    expect(DELIVERY_STATES).toEqual(['delivered', 'notified', 'read', 'acked']);
  });
});
