/**
 * A host of the world of mail: its daemon as a process, with a clock that moves and where possible a disk of its own, a
 * faulty link to the relay and one in front of its LAN listener.
 */
import { writeFile } from 'node:fs/promises';
import type { InputOf, OperationName, OutputOf } from '../../../src/host/api/operations.ts';
import { deferred } from '../deferred.ts';
import { FlakyProxy, NO_CHANCES } from '../flaky-proxy.ts';
import { freePort } from '../free-port.ts';
import { KilledDaemon, isLost } from '../killed-daemon.ts';
import { diskAt, fillDisk, freeDisk } from '../own-disks.ts';
import { movableClock } from '../poste-process.ts';
import { SeededRandom } from '../seeded-random.ts';
import { atTestEnd } from '../test-end.ts';

export const AGENTS = ['one', 'two'] as const;
/** Room for two stores, and for one that is restored beside them. */
const DISK_BYTES = 96 << 20;

export interface PostHostOptions {
  name: string;
  /** Holds what a pairing left, in a folder of this name. */
  folder: string;
  random: SeededRandom;
  relayPort: () => number;
  hasDisk: boolean;
  /** The program of another build. */
  main?: string | undefined;
}

export class PostHost {
  readonly name: string;
  readonly daemon: KilledDaemon;
  /** To the relay. */
  readonly relayLink: FlakyProxy;
  /** In front of its listener; paired hosts know this address alone. */
  readonly lanLink: FlakyProxy;
  readonly clockFile: string;
  /** Ahead of what the world calls the time. */
  skewMs = 0;
  isUp = true;
  /** The number of times that it went down; what was asked before that may have failed. */
  #downs = 0;
  #up = deferred();

  static async begin({ name, folder, random, relayPort, hasDisk, main }: PostHostOptions): Promise<PostHost> {
    const lanPort = await freePort();
    const dice = (): SeededRandom => new SeededRandom(random.below(1 << 30));
    const relayLink = await FlakyProxy.open(dice(), relayPort);
    const lanLink = await FlakyProxy.open(dice(), () => lanPort);
    for (const link of [relayLink, lanLink]) atTestEnd(() => link.close());
    const home = `${folder}/${name}`;
    if (hasDisk) await diskAt(home, DISK_BYTES);
    const clockFile = `${folder}/${name}.clock`;
    const environment = {
      POSTE_LAN_ADVERTISE: new URL(lanLink.url).host,
      // Days may pass in a run.
      POSTE_RETENTION_DAYS: '3650',
      ...movableClock(clockFile),
    };
    const daemon = await KilledDaemon.over(name, home, { lanPort, environment, ...(main !== undefined && { main }) });
    return new PostHost({ name, daemon, relayLink, lanLink, clockFile, hasDisk });
  }

  readonly hasDisk: boolean;

  private constructor(parts: Pick<PostHost, 'name' | 'daemon' | 'relayLink' | 'lanLink' | 'clockFile' | 'hasDisk'>) {
    this.name = parts.name;
    this.daemon = parts.daemon;
    this.relayLink = parts.relayLink;
    this.lanLink = parts.lanLink;
    this.clockFile = parts.clockFile;
    this.hasDisk = parts.hasDisk;
    this.#up.resolve();
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

  heal(): void {
    for (const link of [this.relayLink, this.lanLink]) {
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
