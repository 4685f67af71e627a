/** A history by script, in the world of the random ones: two hosts and a relay do what it says, and nothing else. */
import { SeededRandom } from '../seeded-random.ts';
import { type Lacking, ModelHost } from './model-host.ts';
import { ModelRelay } from './model-relay.ts';
import type { World, WorldKind } from './model-worlds.ts';

export class Scene implements World {
  readonly kind: WorldKind;
  readonly relay: ModelRelay;
  readonly hosts: ModelHost[] = [];
  readonly a: ModelHost;
  readonly b: ModelHost;
  victims = ['a'];
  readonly isToBeSeen = true;
  readonly random = new SeededRandom(37);
  readonly #lacks: Lacking | undefined;

  /** Both have sent mail and looked, and nothing is owed. */
  constructor(kind: WorldKind, { lacks, givesAfter = true }: { lacks?: Lacking | undefined; givesAfter?: boolean }) {
    this.kind = kind;
    this.#lacks = lacks;
    this.relay = new ModelRelay(this.random);
    this.relay.givesAfter = givesAfter;
    this.a = this.join('a');
    this.b = this.join('b');
    this.b.send('a');
    this.sendAndPass(25);
  }

  join(name: string): ModelHost {
    const host = new ModelHost(name, this.relay, this.random);
    host.lacks = this.#lacks;
    this.hosts.push(host);
    return host;
  }

  pass(minutes: number, each: () => void = () => {}): void {
    for (let nth = 0; nth < minutes; nth++) {
      this.relay.minute++;
      each();
      for (const host of this.hosts) host.step(false);
    }
  }

  /** Host a sends mail to b, and so looks. */
  sendAndPass(minutes: number): void {
    this.a.send('b');
    this.pass(minutes);
  }

  sleep(host: ModelHost, minutes: number): void {
    host.asleepUntil = this.relay.minute + minutes;
  }
}
