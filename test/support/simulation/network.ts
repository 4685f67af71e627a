/** Requests of hosts to the relay, and its answers: lost, doubled, late, in any order. */
import type { SeededRandom } from '../seeded-random.ts';
import type { Answer, Request } from './requests.ts';
import type { SimulatedProcess, Simulator } from './simulator.ts';

export interface NetworkFaults {
  lostRequest: number;
  lostAnswer: number;
  /** The request comes twice. */
  doubled: number;
  /** Milliseconds at most that a message takes beyond the usual. */
  lateMs: number;
}

export const CALM: NetworkFaults = { lostRequest: 0, lostAnswer: 0, doubled: 0, lateMs: 0 };

/** A host gives up a request after this time. */
const PATIENCE_MS = 15_000;

/** Whoever answers; `undefined` while nobody does, and no answer where the relay ends meanwhile. */
type Server = (request: Request) => Promise<Answer> | undefined;

export class SimulatedNetwork {
  faults = CALM;
  readonly #simulator: Simulator;
  readonly #random: SeededRandom;
  readonly #server: Server;

  constructor(simulator: Simulator, random: SeededRandom, server: Server) {
    this.#simulator = simulator;
    this.#random = random;
    this.#server = server;
  }

  /** Returns what `owner` hears of its request: `undefined` when that is nothing. */
  ask(request: Request, owner: SimulatedProcess): Promise<Answer | undefined> {
    return new Promise((resolve) => {
      const { lostRequest, lostAnswer, doubled } = this.faults;
      const waitMs = request.type === 'pull' ? request.waitS * 1000 : 0;
      this.#simulator.after(PATIENCE_MS + waitMs, () => resolve(undefined), owner);
      const times = this.#random.chance(doubled) ? 2 : 1;
      for (let time = 0; time < times; time++) {
        if (this.#random.chance(lostRequest)) continue;
        const isAnswerLost = this.#random.chance(lostAnswer);
        this.#simulator.after(this.#travelMs(), () => {
          void this.#server(request)?.then((answer) => {
            if (!isAnswerLost) this.#simulator.after(this.#travelMs(), () => resolve(answer), owner);
          });
        });
      }
    });
  }

  #travelMs(): number {
    const { lateMs } = this.faults;
    const late = this.#random.chance(0.3) ? this.#random.unit() * lateMs : 0;
    return 0.5 + this.#random.unit() * 20 + late;
  }
}
