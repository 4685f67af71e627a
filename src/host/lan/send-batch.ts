/**
 * The carrier of the LAN: sends rows of one paired host in one request, after this host's own key where the peer does
 * not have it yet. Says what the answer makes of each row; the dispatcher stores it.
 */
import { encodeBase64 } from '../../protocol/encodings.ts';
import { LAN_BATCH_MAX, type LanItem, type LanItemsAnswer } from '../../protocol/lan.ts';
import type { OutboxEvent } from '../core/outbox-event.ts';
import { isSending } from '../core/outbox-row.ts';
import type { OutboxRow, PeerId, PeerRow } from '../core/rows.ts';
import type { HostContext } from '../base/context.ts';
import type { Carrier, Sent } from '../outbox/peer-work.ts';
import { wireOf } from '../outbox/outbox.ts';
import { currentKey } from '../peers/peers.ts';
import { type LanClient, LanCallFailed } from './lan-client.ts';
import { sendOwnKey } from './peer-sync.ts';

/** Wire bytes of one request: base64 makes a third more of them, the body has a bound, and a link may be slow. */
const BATCH_BYTES_MAX = 2 << 20;
/** The same, of a body that is small to a listener (http/framing.ts): a crowd may leave no room for others. */
const SMALL_BATCH_BYTES_MAX = 32 << 10;
const CROWDED: ReadonlySet<string> = new Set(['RATE_LIMITED', 'UNAVAILABLE']);
/** Answers of a host that may not know this host's key. */
const UNKNOWN_HERE: ReadonlySet<string> = new Set(['NOT_ENROLLED', 'BAD_SIGNATURE']);

interface LanCarrierOptions {
  context: HostContext;
  client: LanClient;
  /** The peer answered as if it did not know this host's key. */
  onDoubt: (peerId: PeerId) => void;
}

export class LanCarrier implements Carrier {
  readonly #options: LanCarrierOptions;

  constructor(options: LanCarrierOptions) {
    this.#options = options;
  }

  send(peer: PeerRow, rows: readonly OutboxRow[], signal: AbortSignal): Promise<Sent> {
    return this.#send(peer, rows, signal, BATCH_BYTES_MAX);
  }

  async #send(peer: PeerRow, rows: readonly OutboxRow[], signal: AbortSignal, bytesMax: number): Promise<Sent> {
    const { context, client, onDoubt } = this.#options;
    const { peerId, address } = peer;
    const items = await this.#itemsOf(rows, bytesMax);
    const rowIds = [...items.keys()];
    if (address === null || rowIds.length === 0) return { events: [] };
    const host = { address, publicKey: currentKey(peer).publicKey };
    try {
      await sendOwnKey(context, client, { ...host, peer });
      const results = await client.items(host, [...items.values()]);
      // A host that forgot this one takes its items for a stranger's.
      if (results.some(({ status }) => status === 'quarantined' || status === 'rejected:quarantine full'))
        onDoubt(peerId);
      return { events: rowIds.map((rowId, at) => ({ rowId, event: outboxEventOf(results[at]) })), lan: 'reached' };
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
      if (signal.aborted) return { events: [] };
      if (CROWDED.has(error.code) && bytesMax > SMALL_BATCH_BYTES_MAX && rowIds.length > 1) {
        return this.#send(peer, rows, signal, SMALL_BATCH_BYTES_MAX);
      }
      const event: OutboxEvent = { type: 'lan-failed', reason: error.message };
      // A host that does not answer costs one request for all that is due to it.
      if (!error.isAnswered) return { events: rows.map(({ rowId }) => ({ rowId, event })), lan: 'unreached' };
      if (UNKNOWN_HERE.has(error.code)) onDoubt(peerId);
      return { events: rowIds.map((rowId) => ({ rowId, event })) };
    }
  }

  /** The items of the request, by row, without those that ended since, as their receipt came over a relay. */
  #itemsOf(rows: readonly OutboxRow[], bytesMax: number): Promise<Map<number, LanItem>> {
    return this.#options.context.store.read((reader) => {
      const items = new Map<number, LanItem>();
      let bytes = 0;
      for (const { rowId } of rows) {
        const row = reader.get('outbox', rowId);
        if (!row || !isSending(row)) continue;
        bytes += row.wireBytes;
        if (items.size >= LAN_BATCH_MAX || (items.size > 0 && bytes > bytesMax)) break;
        items.set(rowId, { kind: row.kind, item_id: row.itemId, wire_b64: encodeBase64(wireOf(reader, rowId)) });
      }
      return items;
    });
  }
}

function outboxEventOf(result: LanItemsAnswer['results'][number] | undefined): OutboxEvent {
  const status = result?.status ?? '';
  if (status === 'accepted' || status === 'duplicate') return { type: 'lan-accepted' };
  if (status === 'quarantined') return { type: 'lan-quarantined' };
  const code = /^rejected:(.*)$/s.exec(status)?.[1];
  return code === undefined
    ? { type: 'lan-failed', reason: 'the host answered with a status that is unknown here' }
    : { type: 'lan-rejected', code };
}
