/**
 * The parts of a process, in the order in which they started, so that they end in the reverse order.
 *
 * An ending has two steps: every service drains, all at the same time (no new work, and the work under way is
 * finished); then each is stopped, one after another, the last that was added first.
 */
export interface Service {
  drain?: () => Promise<unknown> | void;
  stop?: () => Promise<void> | void;
}

export class Services {
  readonly #services: { name: string; service: Service }[] = [];
  #draining: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  add(name: string, service: Service): void {
    this.#services.push({ name, service });
  }

  /**
   * Ends when every service has drained, also when one of them fails to drain; the failures are thrown at the end. A
   * second call joins the first.
   */
  drain(): Promise<void> {
    this.#draining ??= this.#drain();
    return this.#draining;
  }

  /**
   * Stops all that was added, also when one of them fails to stop; the failures are thrown at the end. A second call
   * joins the first.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #drain(): Promise<void> {
    const drained = await Promise.allSettled(this.#services.map(async ({ service }) => service.drain?.()));
    const failures = drained.flatMap((result, at) =>
      result.status === 'rejected'
        ? [new Error(`${this.#services[at]?.name} did not drain`, { cause: result.reason })]
        : [],
    );
    throwAll(failures, 'some services did not drain');
  }

  async #stop(): Promise<void> {
    const failures: Error[] = [];
    for (const { name, service } of this.#services.toReversed()) {
      try {
        await service.stop?.();
      } catch (error) {
        failures.push(new Error(`${name} did not stop`, { cause: error }));
      }
    }
    throwAll(failures, 'some services did not stop');
  }
}

function throwAll(failures: readonly Error[], message: string): void {
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, message);
}
