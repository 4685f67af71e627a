/** Hosts as the control socket shows them. */
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import type { HostDocument } from '../../src/relay/operator/documents.ts';
import type { TestHost } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';

export function hostDocumentOf({ name, key }: TestHost, changes: Partial<HostDocument> = {}): HostDocument {
  return {
    host: name,
    host_pubkey: key,
    fingerprint: displayFingerprint(key),
    state: 'live',
    account: null,
    org: null,
    client_id: null,
    owner_fp: '',
    authorized_by: 'host-key',
    enrolled_at: NOON_MS,
    valid_until: null,
    revoked_at: null,
    rotated_to: null,
    seen: false,
    queue_items: 0,
    queue_bytes: 0,
    head_seq: 0,
    acked_through: 0,
    ...changes,
  };
}
