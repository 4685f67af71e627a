/** How the host is, for whoever asks its daemon. */
import { displayFingerprint } from '../../protocol/public-key.ts';
import { OWNER_ID } from '../core/rows.ts';
import type { StatusResult } from '../documents/status.ts';
import type { Office } from './office.ts';

/** What the composition root knows of itself. */
export interface DaemonFacts {
  version: string;
  pid: number;
  startedAtMs: number;
  store: string;
  config: string;
  socket: string;
}

export function readStatus(office: Office, { startedAtMs, ...facts }: DaemonFacts): Promise<StatusResult> {
  const { hostName, signer, sealKey } = office.identity();
  return office.store.read(async (reader) => {
    let agents = 0;
    for await (const { row } of reader.range('agent', [])) if (row.removedAtMs === null) agents++;
    return {
      host: hostName,
      host_pubkey: signer.publicKey,
      fingerprint: displayFingerprint(signer.publicKey),
      enc_pub: sealKey.encPub,
      ...facts,
      started_at: startedAtMs,
      agents,
      owner_unread: reader.get('mailbox', OWNER_ID)?.unread ?? 0,
    };
  });
}
