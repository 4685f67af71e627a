/**
 * Asks the pinned relay to prove of the items that it took from this host that they are in its log.
 *
 * Nothing of a proof is looked at here: who gets it verifies it, without asking anybody.
 */
import type { PublicKey } from '../../../protocol/public-key.ts';
import type { AskedProof, TraceRow } from '../../documents/trace.ts';
import type { Office } from '../../office/office.ts';
import { RelayClient } from '../relay-client.ts';
import { RelayCallFailed, RelayProblem } from '../relay-request.ts';

/** The rows with what the relay answered; `inTime` ends every request. */
export async function withProofs(office: Office, rows: readonly TraceRow[], inTime: AbortSignal): Promise<TraceRow[]> {
  const relay = await office.store.read((reader) => reader.get('relay'));
  const { hostName, signer } = office.identity();
  const client =
    relay &&
    new RelayClient({ url: relay.url, signer, hostName, nowMs: () => office.nowMs(), stopping: inTime }, relay.pubkey);
  return Promise.all(
    rows.map(async (row) => {
      const { acceptance } = row;
      if (!acceptance) return row;
      if (!relay || !client) return { ...row, proof: none('no relay is set any more that could be asked') };
      if (acceptance.relay_pubkey !== relay.pubkey)
        return { ...row, proof: none('another relay took it than the one that is set now') };
      if (relay.seenKey)
        return { ...row, proof: none('the relay shows another key, and is not asked: see poste doctor') };
      return { ...row, proof: await proofOf(client, row, acceptance) };
    }),
  );
}

async function proofOf(
  client: RelayClient,
  { item_id: itemId }: TraceRow,
  { accept, must_know: mustKnow }: NonNullable<TraceRow['acceptance']>,
): Promise<AskedProof> {
  const [target] = accept.targets;
  const query = new URLSearchParams({ item_id: itemId, target: (target?.host_pubkey ?? '') as PublicKey });
  try {
    const document = await client.request('GET', `/v2/relay/log/proof?${query.toString()}`);
    return { state: 'served', document };
  } catch (error) {
    if (!(error instanceof RelayCallFailed)) throw error;
    if (!(error instanceof RelayProblem) || error.status !== 404) return none(error.message);
    const detail = error.document['detail'];
    // Of a record that was pruned the relay keeps the hash alone, and says so.
    const isPruned = typeof detail === 'string' && detail.includes('pruned');
    return mustKnow && !isPruned ? { state: 'denied', reason: error.message } : none(error.message);
  }
}

function none(reason: string): AskedProof {
  return { state: 'none', reason };
}
