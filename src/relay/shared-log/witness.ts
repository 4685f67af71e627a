/**
 * The newest batch that a node has seen of the log, in a file outside the view: a log that lacks it lost something, and
 * a server that is older than the one where it was seen was replaced by another. The file lies beside the position that
 * a store with a log of its own would have (position.ts), so that a store folder that is put back does not bring it
 * along.
 */
import { readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Cancel, Timers } from '../../lib/clock.ts';
import { replaceFile, syncFolder } from '../../lib/files.ts';
import type { LogTree } from '../store/log-tree.ts';
import { POSITION_FILE, type PositionPlace, positionPathOf } from '../store/position.ts';
import type { ViewMark } from '../store/marks.ts';
import { epochsOf, lackingDoubt } from './doubt.ts';
import { type EncodedBatch, LogRefused, type LogServer, type SharedLog } from './shared-log.ts';

const WITNESS_FILE = 'witness.json';
const WITNESS_EVERY_MS = 1_000;

/** A batch that was seen. */
export interface SeenBatch extends Pick<ViewMark, 'logId' | 'no' | 'lastLsn' | 'effects'> {
  /** The epochs that the log had then (doubt.ts). */
  epochs: string;
}

interface Witness extends SeenBatch {
  /** The server where the log lay. */
  server: LogServer;
}

/** An older software wrote none of the epochs. */
type StoredWitness = Omit<Witness, 'effects' | 'epochs'> & { effects: string; epochs?: string };

/** The place where a store notes what it has seen: in its folder, or beside its position where that is elsewhere. */
export interface NotesPlace extends PositionPlace {
  folder: string;
}

export function witnessFile({ folder, positionFile }: NotesPlace): string {
  const position = positionPathOf(folder, positionFile);
  return position === join(folder, POSITION_FILE) ? inFolder(folder) : `${position}.${WITNESS_FILE}`;
}

function inFolder(folder: string): string {
  return join(folder, WITNESS_FILE);
}

/** Reads what this node noted last; `undefined` when nothing can be read. An older software noted it in the folder. */
export async function readWitness(place: NotesPlace): Promise<Witness | undefined> {
  for (const path of [witnessFile(place), inFolder(place.folder)]) {
    const text = await readFile(path, 'utf8').catch(() => undefined);
    const witness = text === undefined ? undefined : witnessIn(text);
    if (witness) return witness;
  }
  return undefined;
}

function witnessIn(text: string): Witness | undefined {
  try {
    const { effects, epochs = '', ...witness } = JSON.parse(text) as StoredWitness;
    return { ...witness, epochs, effects: Buffer.from(effects, 'hex') };
  } catch {
    return undefined;
  }
}

/** Call it after the log got the doubt about what it lacks, so that the node adds that doubt once. */
export async function forgetWitness(place: NotesPlace): Promise<void> {
  for (const path of [witnessFile(place), inFolder(place.folder)]) {
    await rm(path, { force: true });
    await syncFolder(dirname(path));
  }
}

interface KeptView {
  log: { readonly mark: ViewMark };
  store: { readonly tree: LogTree };
}

/** The newest batch that a view holds. */
export function heldBy({ log, store }: KeptView): SeenBatch {
  return { ...log.mark, epochs: epochsOf(store.tree) };
}

interface KeeperOptions extends NotesPlace {
  timers: Timers;
  onError: (error: unknown) => void;
}

/** Notes how far a view has come: at once when the log is seen on another server, then once a second. */
export class WitnessKeeper {
  readonly #options: KeeperOptions;
  readonly #view: KeptView;
  readonly #cancel: Cancel;
  #server: LogServer | undefined;
  #notedNo = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: KeeperOptions, view: KeptView) {
    this.#options = options;
    this.#view = view;
    this.#cancel = options.timers.every(WITNESS_EVERY_MS, () => this.#write());
  }

  seenOn(server: LogServer): void {
    if (JSON.stringify(server) !== JSON.stringify(this.#server)) this.#notedNo = 0;
    this.#server = server;
    if (this.#notedNo === 0) this.#write();
  }

  /** Notes it once more, and ends that. */
  stop(): Promise<void> {
    this.#cancel();
    this.#write();
    return this.#writing;
  }

  #write(): void {
    const { logId, no, lastLsn, effects } = this.#view.log.mark;
    const server = this.#server;
    if (no === this.#notedNo || no === 0 || !server) return;
    this.#notedNo = no;
    const epochs = epochsOf(this.#view.store.tree);
    const text = JSON.stringify({ logId, no, lastLsn, effects: effects.toString('hex'), epochs, server });
    this.#writing = this.#writing
      .then(() => replaceFile(witnessFile(this.#options), `${text}\n`))
      .catch(this.#options.onError);
  }
}

/** Throws `LogRefused` for a server that another took the place of. */
export function refuseOlder(server: LogServer, seen: LogServer): void {
  if (server.systemId !== seen.systemId || server.timeline >= seen.timeline) return;
  throw new LogRefused(
    'the server of the log is older than what this node has seen: it was replaced by ' +
      'another, which is to be named in --log',
  );
}

/** True when the log holds the batch with all before it. One that is pruned cannot be compared, and counts as held. */
export async function isHeld(
  log: SharedLog,
  logId: string,
  { no, effects }: Pick<EncodedBatch, 'no' | 'effects'>,
): Promise<boolean> {
  if (no === 0) return true;
  const found = await log.batch(logId, no);
  return found === 'pruned' || found?.effects.equals(effects) === true;
}

/** Tells the log, by its doubt, of the newest of these batches that it lacks. Resolves with all that it lacks, so. */
export async function doubtLacking(log: SharedLog, logId: string, seen: readonly SeenBatch[]): Promise<SeenBatch[]> {
  const lacking: SeenBatch[] = [];
  for (const batch of seen) if (!(await isHeld(log, logId, batch))) lacking.push(batch);
  lacking.sort((one, other) => other.no - one.no);
  const [most] = lacking;
  if (most) await log.doubt(logId, lackingDoubt(most));
  return lacking;
}
