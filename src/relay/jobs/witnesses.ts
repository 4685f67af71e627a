/**
 * Asks the witnesses of a relay to cosign its newest checkpoint: each minute when the log has grown, and each half hour
 * when it has not, so that the time of the cosignature stays young.
 *
 * A witness remembers what this relay signed. One that knows more of the current epoch than the log has, or another
 * history of it, may show that the store was put back to a copy: a new epoch begins when it shows a note with this
 * relay's own signature that proves it. Its bare word is believed once a day, so that no witness can make epochs.
 */
import type { Timers, Clock } from '../../lib/clock.ts';
import { type HttpAnswer, HttpCaller, HttpRequestFailed, limitedSignal } from '../../lib/http-request.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { openCheckpoint, plainNote } from '../../protocol/checkpoint.ts';
import {
  WITNESS_ANSWER_BYTES_MAX,
  type WitnessKey,
  addCheckpointBody,
  openCosignature,
  parseSize,
} from '../../protocol/cosignature.ts';
import type { Epoch } from '../../protocol/names.ts';
import { isObject } from '../../protocol/json.ts';
import { leafDocument } from '../../protocol/log-leaf.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import { noteBytes } from '../../protocol/seen.ts';
import type { WitnessShown } from '../../protocol/operator-documents.ts';
import type { LogProofs } from '../engine/log-proofs.ts';

export interface WitnessSettings {
  url: string;
  key: WitnessKey;
}

export const WITNESSES_MAX = 4;
export const WITNESS_ROUND_MS = 60_000;
const RENEWED_AFTER_MS = 30 * 60_000;
/** Then hosts, which want one of the last hour, get one that fewer witnesses cosigned. */
const OLD_AFTER_MS = 50 * 60_000;
const REQUEST_MS = 10_000;
/** Every epoch with its newest note: 1 KiB each. */
const LOG_BYTES_MAX = 8 << 20;
/** A conflict, an epoch that is opened, and the request that is cosigned, each with a race. */
const REQUESTS_MAX = 6;

export interface WitnessesOptions {
  witnesses: readonly WitnessSettings[];
  log: LogProofs;
  relayPubkey: PublicKey;
  /** Ends an epoch that is contradicted, and resolves with the one that is current then. */
  endEpoch: (contradicted: Epoch) => Promise<Epoch>;
  /** False while another node of a shared log may lead. */
  mayAsk: () => boolean;
  clock: Clock;
  timers: Timers;
  logger: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>;
}

interface Own {
  epoch: Epoch;
  size: number;
  note: string;
}

/** A checkpoint with the line of each witness that cosigned it, and when the last one did. */
interface CosignedHead extends Own {
  lines: Map<AskedWitness, string>;
  atMs: number;
}

interface AskedWitness {
  witness: WitnessSettings;
  /** The newest checkpoint that it cosigned, and when by the monotonic clock. */
  cosigned: { own: Own; atMs: number } | undefined;
  /** The last thing that went wrong with it, which is said once. */
  fault: string;
}

export class Witnesses {
  readonly #options: WitnessesOptions;
  readonly #asked: readonly AskedWitness[];
  readonly #caller = new HttpCaller();
  #cosigned: CosignedHead[] = [];
  readonly #task: PeriodicTask;

  constructor(options: WitnessesOptions) {
    const { timers, logger } = options;
    this.#options = options;
    this.#asked = options.witnesses.map((witness) => ({ witness, cosigned: undefined, fault: '' }));
    this.#task = new PeriodicTask({
      timers,
      everyMs: WITNESS_ROUND_MS,
      work: (signal) => this.#round(signal),
      onError: (error) => logger.error({ err: error }, 'the witnesses could not be asked'),
    });
  }

  /** The state of each of them. */
  get shown(): WitnessShown[] {
    const nowMs = this.#options.clock.monotonicMs();
    return this.#asked.map(({ witness, cosigned, fault }) => ({
      name: witness.key.name,
      cosigned_ms_ago: cosigned ? Math.round(nowMs - cosigned.atMs) : null,
      fault: fault === '' ? null : fault,
    }));
  }

  /** A round now. Never rejects. */
  ask(): Promise<void> {
    return this.#task.rerun();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #round(signal: AbortSignal): Promise<void> {
    // One checkpoint for all of them, so that it has the cosignatures of all.
    const own = this.#newest();
    await Promise.all(this.#asked.map((asked) => this.#askSafely(asked, own, signal)));
  }

  async #askSafely(asked: AskedWitness, own: Own, signal: AbortSignal): Promise<void> {
    if (!this.#options.mayAsk()) return;
    try {
      this.#fault(asked, await this.#askOne(asked, own, signal));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof HttpRequestFailed)) throw error;
      this.#fault(asked, `it gave no answer (${error.message})`);
    }
  }

  /** Resolves with what is wrong, as a clause; `''`: its cosignature is young. */
  async #askOne(asked: AskedWitness, first: Own, signal: AbortSignal): Promise<string> {
    const { cosigned } = asked;
    let own = first;
    const known = cosigned?.own.epoch === own.epoch ? cosigned : undefined;
    const isYoung = known !== undefined && this.#options.clock.monotonicMs() - known.atMs < RENEWED_AFTER_MS;
    if (known?.own.size === own.size && isYoung) return '';
    let old = known?.own.size ?? 0;
    for (let requests = 0; requests < REQUESTS_MAX; requests++) {
      const answer = await this.#addCheckpoint(asked, own, old, signal);
      const text = answer.body.toString('utf8');
      if (answer.status === 200) return this.#take(asked, own, text);
      const size = answer.status === 409 ? parseSize(text.replace(/\n$/, '')) : undefined;
      // Anybody may have shown it a newer one than that of this round.
      if (size !== undefined && size > own.size) own = this.#newest();
      let fault = '';
      if (size !== undefined && size !== old && size <= own.size) old = size;
      else if (size !== undefined || answer.status === 422)
        fault = await this.#takeContradiction(asked, own, size ?? old, signal);
      else if (answer.status === 404) fault = await this.#openEpoch(asked, own, signal);
      else fault = `it answers ${answer.status} to a checkpoint`;
      if (fault !== '') return fault;
      const newest = this.#newest();
      if (newest.epoch !== own.epoch) [own, old] = [newest, 0];
    }
    return 'it takes no checkpoint, however often it is asked';
  }

  #newest(): Own {
    const { log, relayPubkey } = this.#options;
    const note = log.checkpoint();
    const checkpoint = note === undefined ? undefined : openCheckpoint(note, relayPubkey);
    if (note === undefined || !checkpoint) throw new Error('invariant: a relay that serves signs its log');
    return { epoch: checkpoint.epoch, size: checkpoint.size, note };
  }

  #addCheckpoint({ witness }: AskedWitness, own: Own, old: number, signal: AbortSignal): Promise<HttpAnswer> {
    const growth = old === 0 ? undefined : this.#options.log.growth(old, own.size, own.epoch);
    const proof = typeof growth === 'object' ? growth.proof : [];
    return this.#request(witness, 'add-checkpoint', signal, addCheckpointBody({ old, proof, note: own.note }));
  }

  #take(asked: AskedWitness, own: Own, text: string): string {
    const cosignature = openCosignature(`${own.note}${text}`, asked.witness.key);
    if (!cosignature) return 'what it answers is no cosignature by its key';
    const atMs = this.#options.clock.monotonicMs();
    asked.cosigned = { own, atMs };
    const before = this.#cosigned.find(({ note }) => note === own.note);
    const lines = new Map([...(before?.lines ?? []), [asked, cosignature.line]]);
    const others = this.#cosigned.filter((one) => one !== before && atMs - one.atMs < OLD_AFTER_MS);
    this.#cosigned = [{ ...own, lines, atMs }, ...others];
    this.#options.log.noteCosigned(this.#best(own.epoch));
    return '';
  }

  /** The newest of the checkpoints of the epoch that most witnesses cosigned, with their cosignatures. */
  #best(epoch: Epoch): { epoch: Epoch; note: string } | undefined {
    const [best] = this.#cosigned
      .filter((one) => one.epoch === epoch)
      .toSorted((one, other) => other.lines.size - one.lines.size || other.size - one.size);
    return best && { epoch, note: `${[best.note.slice(0, -1), ...best.lines.values()].join('\n')}\n` };
  }

  /** It knows `size` leaves of this epoch, which the log has not, or other ones. `''`: a new epoch began. */
  async #takeContradiction({ witness }: AskedWitness, own: Own, size: number, signal: AbortSignal): Promise<string> {
    const { log, relayPubkey, endEpoch } = this.#options;
    const epochs = (await this.#epochsAt(witness, signal)) ?? [];
    for (const { note } of epochs) {
      const shown = plainNote(note, relayPubkey);
      if (shown?.checkpoint.epoch !== own.epoch) continue;
      const verdict = log.judge({ note: shown.note });
      const contradicted = verdict === 'malformed' ? undefined : verdict.contradicted;
      if (contradicted === undefined) return 'it cosigns no head of this log, although it shows none that differs';
      return (await endEpoch(contradicted)) === contradicted ? 'no new epoch could be begun' : '';
    }
    return this.#believe(own, `it knows another log of this epoch, of size ${size}, and shows no note that proves it`);
  }

  /** Opens the current epoch at a witness that cosigns another. `''`: it is open, or a new epoch began. */
  async #openEpoch({ witness }: AskedWitness, own: Own, signal: AbortSignal): Promise<string> {
    const { log, relayPubkey } = this.#options;
    const epochs = await this.#epochsAt(witness, signal);
    const last = epochs?.at(-1);
    const newest = last && plainNote(last.note, relayPubkey);
    if (!newest) {
      const origin = own.note.split('\n', 1)[0];
      return `it does not know ${origin}: ask its operator to add this origin, or the key of the relay`;
    }
    if (last.epoch === own.epoch) return '';
    if (epochs?.some(({ epoch }) => epoch === own.epoch) && !log.isEpoch(last.epoch))
      return this.#believe(own, `it cosigns epoch ${last.epoch}, which was opened behind the current one`);
    const link = log.link();
    if (!link) throw new Error('invariant: every epoch has a link');
    const document = leafDocument(relayPubkey, { ...link, checkpoint: log.checkpointAfter(noteBytes(newest.note)) });
    const { status } = await this.#request(witness, 'add-epoch', signal, JSON.stringify(document));
    return status === 200 ? '' : `it answers ${status} to the link of epoch ${link.epoch}`;
  }

  /** Believes the bare word of a witness that the current epoch is to end, unless it did so within a day. */
  async #believe(own: Own, word: string): Promise<string> {
    const { log, clock, endEpoch, logger } = this.#options;
    const lastMs = await log.lastContradictedMs();
    if (lastMs !== undefined && Math.abs(clock.nowMs() - lastMs) < DAY_MS) return word;
    logger.error({ epoch: own.epoch }, `a witness is believed for once: ${word}`);
    return (await endEpoch(own.epoch)) === own.epoch ? word : '';
  }

  /** The epochs that a witness of this software shows, in its order; `undefined` of another witness. */
  async #epochsAt(witness: WitnessSettings, signal: AbortSignal): Promise<WitnessEpoch[] | undefined> {
    const { status, body } = await this.#request(witness, `log/${hostFingerprint(this.#options.relayPubkey)}`, signal);
    return status === 200 ? epochsIn(body) : undefined;
  }

  async #request({ url }: WitnessSettings, path: string, stopping: AbortSignal, body?: string): Promise<HttpAnswer> {
    const { signal, over } = limitedSignal(REQUEST_MS, stopping);
    try {
      return await this.#caller.request(`${url.replace(/\/$/, '')}/${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) },
        body,
        signal,
        answerBytesMax: body === undefined ? LOG_BYTES_MAX : WITNESS_ANSWER_BYTES_MAX,
      });
    } finally {
      over();
    }
  }

  /** Says once what is wrong, and when it is right again. */
  #fault(asked: AskedWitness, fault: string): void {
    const { logger } = this.#options;
    const { name } = asked.witness.key;
    if (fault !== '' && fault !== asked.fault) logger.warn({ witness: name }, `a witness does not cosign: ${fault}`);
    if (fault === '' && asked.fault !== '') logger.info({ witness: name }, 'a witness cosigns again');
    asked.fault = fault;
  }
}

interface WitnessEpoch {
  epoch: string;
  note: string;
}

/** The entries that have the shape of one; an answer that has none is one of no epochs. */
function epochsIn(body: Buffer): WitnessEpoch[] {
  let document: unknown;
  try {
    document = JSON.parse(body.toString('utf8'));
  } catch {
    return [];
  }
  const epochs = isObject(document) && Array.isArray(document['epochs']) ? (document['epochs'] as unknown[]) : [];
  return epochs.flatMap((one) => {
    if (!isObject(one) || typeof one['epoch'] !== 'string' || typeof one['checkpoint'] !== 'string') return [];
    return [{ epoch: one['epoch'], note: one['checkpoint'] }];
  });
}
