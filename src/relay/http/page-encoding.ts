/**
 * The JSON of a page, in pieces: items as they are read, then the tail. Items are encoded straight into one buffer of
 * their exact size: measured, building a string of them first costs half of all the time that a page takes.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Page } from '../engine/engine.ts';

/** Encodes one page. */
export interface PageEncoder {
  /** The next items, in order; what is written before the first of them is in front. */
  items(rows: readonly QueueRow[], wires: readonly Buffer[]): Buffer;
  /** The rest of the document. */
  end(lastSeq: number, more: boolean): string;
}

/** `GET /v2/relay/items`. */
export class ItemsEncoder implements PageEncoder {
  #lead: string;

  constructor({ epoch, headSeq }: Page) {
    this.#lead = `{"epoch":${JSON.stringify(epoch)},"head_seq":${headSeq},"items":[`;
  }

  items(rows: readonly QueueRow[], wires: readonly Buffer[]): Buffer {
    const heads = rows.map((row, position) => (position === 0 ? this.#lead : ',') + itemHead(row));
    if (heads.length > 0) this.#lead = ',';
    let size = 0;
    for (const [position, head] of heads.entries()) {
      size += head.length + base64Length(wires[position]?.length ?? 0) + ITEM_TAIL.length;
    }
    const bytes = Buffer.allocUnsafeSlow(size);
    let at = 0;
    for (const [position, head] of heads.entries()) {
      at += bytes.write(head, at, 'latin1');
      at += bytes.write(wires[position]?.toString('base64') ?? '', at, 'latin1');
      at += bytes.write(ITEM_TAIL, at, 'latin1');
    }
    if (at !== size) throw new Error('invariant: a page has the size it was planned with');
    return bytes;
  }

  end(lastSeq: number, more: boolean): string {
    const head = this.#lead === ',' ? '' : this.#lead;
    return `${head}],"last_seq":${lastSeq},"more":${more}}`;
  }
}

/**
 * `GET /v1/relay/messages`: envelopes alone, as the JSON that they are. Receipts and notices are passed over by the
 * cursor: clients of v1 cannot read them.
 */
export class EnvelopesEncoder implements PageEncoder {
  #lead = '{"envelopes":[';
  readonly #epoch: Epoch;

  constructor({ epoch }: Page) {
    this.#epoch = epoch;
  }

  items(rows: readonly QueueRow[], wires: readonly Buffer[]): Buffer {
    const parts: Buffer[] = [];
    for (const [position, wire] of wires.entries()) {
      if (rows[position]?.kind !== 'envelope') continue;
      parts.push(Buffer.from(this.#lead), wire);
      this.#lead = ',';
    }
    return Buffer.concat(parts);
  }

  end(lastSeq: number, more: boolean): string {
    const head = this.#lead === ',' ? '' : this.#lead;
    return `${head}],"cursor":${JSON.stringify(cursorText(this.#epoch, lastSeq))},"more":${more}}`;
  }
}

/** A v1 cursor: opaque to clients, bound to the epoch. */
export function cursorText(epoch: Epoch, seq: number): string {
  return `${epoch}.${seq}`;
}

export function parseCursor(text: string): { epoch: Epoch; seq: number } | undefined {
  const parts = /^(?<epoch>[0-9A-Za-z_-]{1,64})\.(?<seq>[0-9]{1,16})$/.exec(text)?.groups;
  const seq = Number(parts?.['seq']);
  return parts?.['epoch'] !== undefined && Number.isSafeInteger(seq)
    ? { epoch: parts['epoch'] as Epoch, seq }
    : undefined;
}

const ITEM_TAIL = '"}';

/** Ids, kinds and keys are ASCII without quotes or backslashes, by the patterns they passed when they were stored. */
function itemHead({ seq, kind, itemId, senderPubkey }: QueueRow): string {
  return `{"seq":${seq},"kind":"${kind}","item_id":"${itemId}","sender_pubkey":"${senderPubkey}","wire_b64":"`;
}

function base64Length(bytes: number): number {
  return 4 * Math.ceil(bytes / 3);
}
