/** A line on standard error that tells how far something is, when somebody looks: nothing is written elsewhere. */
const EVERY_MS = 100;
const ERASE_LINE = '\r\x1b[K';
const MEGABYTE = 1_000_000;

export interface ProgressOutput {
  isTTY?: boolean;
  write(text: string): unknown;
}

export class ProgressLine {
  readonly #output: ProgressOutput;
  readonly #monotonicMs: () => number;
  readonly #startedMs: number;
  #shownMs = Number.NEGATIVE_INFINITY;
  #isShown = false;

  constructor(output: ProgressOutput, monotonicMs: () => number = () => performance.now()) {
    this.#output = output;
    this.#monotonicMs = monotonicMs;
    this.#startedMs = monotonicMs();
  }

  /** `bytesAbout` is an estimate; 0 when there is none. */
  bytes(what: string, bytes: number, bytesAbout: number): void {
    this.step((nowMs) => this.#bytesText({ what, bytes, bytesAbout }, nowMs));
  }

  /** Says something that changes often: ten times a second at most. */
  step(text: (nowMs: number) => string): void {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#shownMs < EVERY_MS) return;
    this.#shownMs = nowMs;
    this.say(text(nowMs));
  }

  #bytesText({ what, bytes, bytesAbout }: { what: string; bytes: number; bytesAbout: number }, nowMs: number): string {
    const share = bytesAbout > 0 ? `, about ${Math.min(99, Math.floor((100 * bytes) / bytesAbout))}%` : '';
    const speed = bytes / MEGABYTE / (Math.max(1, nowMs - this.#startedMs) / 1000);
    return `${what}: ${(bytes / MEGABYTE).toFixed(1)} MB${share}, ${speed.toFixed(0)} MB/s`;
  }

  say(text: string): void {
    if (this.#output.isTTY !== true) return;
    this.#isShown = true;
    this.#output.write(ERASE_LINE + text);
  }

  /** Leaves nothing of it behind. */
  end(): void {
    if (this.#isShown) this.#output.write(ERASE_LINE);
    this.#isShown = false;
  }
}
