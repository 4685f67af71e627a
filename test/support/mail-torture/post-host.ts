/**
 * A host of the world of mail: its daemon as a process, with a clock that moves and where possible a disk of its own, a
 * faulty link to each relay and one in front of its LAN listener.
 */
import { writeFile } from 'node:fs/promises';
import type { InputOf, OperationName, OutputOf } from '../../../src/host/api/operations.ts';
import { CallFailed } from '../../../src/host/api/client.ts';
import { deferred } from '../deferred.ts';
import { FlakyProxy, NO_CHANCES } from '../flaky-proxy.ts';
import { freePort } from '../free-port.ts';
import { KilledDaemon, isLost } from '../killed-daemon.ts';
import { diskAt, fillDisk, freeDisk } from '../own-disks.ts';
import { type Environment, movableClock } from '../poste-process.ts';
import { SeededRandom } from '../seeded-random.ts';
import { atTestEnd } from '../test-end.ts';

export const AGENTS = ['one', 'two'] as const;
/** So that what a host with several relays does after minutes and hours happens within a run. */
const SOON_ELSEWHERE: Environment = { POSTE_RELAY_RETRY_ELSEWHERE_S: '1', POSTE_RELAY_SECOND_COPY_S: '2' };
/** Room for two stores, and for one that is restored beside them. */
const DISK_BYTES = 96 << 20;

export interface PostHostOptions {
  name: string;
  /** Holds what a pairing left, in a folder of this name. */
  folder: string;
  random: SeededRandom;
  /** Where each relay is reached now, in the host's order. */
  relayPorts: readonly (() => number)[];
  hasDisk: boolean;
  /** The program of another build. */
  main?: string | undefined;
}

export class PostHost {
  readonly name: string;
  readonly daemon: KilledDaemon;
  /** To each relay. */
  readonly relayLinks: readonly FlakyProxy[];
  /** In front of its listener; paired hosts know this address alone. */
  readonly lanLink: FlakyProxy;
  readonly clockFile: string;
  /** Ahead of what the world calls the time. */
  skewMs = 0;
  isUp = true;
  /** The address of the relay that its owner removed last and has not added again. */
  removed: string | undefined;
  /** The number of times that it went down; what was asked before that may have failed. */
  #downs = 0;
  #up = deferred();

  static async begin({ name, folder, random, relayPorts, hasDisk, main }: PostHostOptions): Promise<PostHost> {
    const lanPort = await freePort();
    const dice = (): SeededRandom => new SeededRandom(random.below(1 << 30));
    const relayLinks: FlakyProxy[] = [];
    for (const port of relayPorts) relayLinks.push(await FlakyProxy.open(dice(), port));
    const lanLink = await FlakyProxy.open(dice(), () => lanPort);
    for (const link of [...relayLinks, lanLink]) atTestEnd(() => link.close());
    const home = `${folder}/${name}`;
    if (hasDisk) await diskAt(home, DISK_BYTES);
    const clockFile = `${folder}/${name}.clock`;
    const environment = {
      POSTE_LAN_ADVERTISE: new URL(lanLink.url).host,
      // Days may pass in a run.
      POSTE_RETENTION_DAYS: '3650',
      ...(relayLinks.length > 1 && SOON_ELSEWHERE),
      ...movableClock(clockFile),
    };
    const daemon = await KilledDaemon.over(name, home, { lanPort, environment, ...(main !== undefined && { main }) });
    return new PostHost({ name, daemon, relayLinks, lanLink, clockFile, hasDisk });
  }

  readonly hasDisk: boolean;

  private constructor(parts: Pick<PostHost, 'name' | 'daemon' | 'relayLinks' | 'lanLink' | 'clockFile' | 'hasDisk'>) {
    this.name = parts.name;
    this.daemon = parts.daemon;
    this.relayLinks = parts.relayLinks;
    this.lanLink = parts.lanLink;
    this.clockFile = parts.clockFile;
    this.hasDisk = parts.hasDisk;
    this.#up.resolve();
  }

  /** To the relays, and the one in front of its listener. */
  get links(): readonly FlakyProxy[] {
    return [...this.relayLinks, this.lanLink];
  }

  get lanAddress(): string {
    return new URL(this.lanLink.url).host;
  }

  /** The answer in the end: asked again in the same words while the daemon is away or the answer was lost. */
  async ask<N extends OperationName>(name: N, input: InputOf<N>, as?: string): Promise<OutputOf<N>> {
    for (;;) {
      const downs = this.#downs;
      await this.#up.promise;
      if (downs !== this.#downs) continue;
      try {
        await this.daemon.ready();
        return await this.daemon.client.call(name, input, { as });
      } catch (error) {
        if (downs === this.#downs && !isLost(error)) throw error;
      }
    }
  }

  async setClock(aheadMs: number): Promise<void> {
    await writeFile(this.clockFile, String(aheadMs + this.skewMs));
  }

  killAndBegin(): void {
    this.#downs++;
    this.daemon.killAndBegin();
  }

  async goDown(): Promise<void> {
    this.#leave();
    await this.daemon.kill();
  }

  comeUp(): void {
    this.daemon.beginAgain();
    this.isUp = true;
    this.#up.resolve();
  }

  /** Nothing can be written any more, until the disk is freed: then the daemon is begun again. */
  async fillDisk(): Promise<void> {
    this.#leave();
    await fillDisk(this.daemon.folder);
  }

  async freeDisk(): Promise<void> {
    await this.daemon.kill();
    await freeDisk(this.daemon.folder);
    this.comeUp();
  }

  /** Adds the relay again that its owner removed; a backup may have brought it back. */
  async addRemoved(): Promise<void> {
    if (this.removed === undefined) return;
    try {
      await this.ask('relay-add', { url: this.removed });
    } catch (error) {
      if (!(error instanceof CallFailed) || error.code !== 'RELAY_KNOWN') throw error;
    }
    this.removed = undefined;
  }

  /** Nobody reaches it over the LAN, until it heals. */
  leaveLan(): void {
    this.lanLink.isAway = 'gone';
    this.lanLink.cutAll();
  }

  heal(): void {
    for (const link of this.links) {
      link.chances = NO_CHANCES;
      // A poll that was asked in the silence would wait for its answer.
      if (link.isAway === 'silent') link.cutAll();
      link.isAway = undefined;
    }
    this.skewMs = 0;
    if (!this.isUp) this.comeUp();
  }

  #leave(): void {
    this.isUp = false;
    this.#downs++;
    this.#up = deferred();
  }
}
