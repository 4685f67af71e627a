/**
 * A finding is what an audit found wrong: a code for programs, and a sentence for the operator that says what it means.
 */

export type FindingCode =
  | 'RECORD_MISSING'
  | 'RECORD_DAMAGED'
  | 'REPLAY_FAILED'
  | 'CHECKPOINT_MISSING'
  | 'CHECKPOINT_DAMAGED'
  | 'CHECKPOINT_DIFFERS'
  | 'TREE_MISSING'
  | 'TREE_DIFFERS'
  | 'TREE_UNEXPECTED'
  | 'ROW_MISSING'
  | 'ROW_UNEXPECTED'
  | 'ROW_DIFFERS'
  | 'ROW_DAMAGED'
  | 'CHARGE_DIFFERS'
  | 'PAYLOAD_MISSING'
  | 'PAYLOAD_DIFFERS'
  | 'PAYLOAD_UNEXPECTED'
  | 'DUE_MISSING'
  | 'DUE_DAMAGED'
  | 'MARK_DIFFERS'
  | 'IDENTITY_DIFFERS'
  | 'POSITION_DIFFERS'
  | 'KEY_UNEXPECTED'
  | 'LOOKUP_DIFFERS'
  | 'DATABASE_DAMAGED';

export interface Finding {
  code: FindingCode;
  message: string;
  /** Programs read here where it is. */
  details: Readonly<Record<string, unknown>>;
}

/** Findings of each code that are listed; the others are counted. */
export const FINDINGS_LISTED_MAX = 20;

export class Findings {
  readonly listed: Finding[] = [];
  readonly #counts = new Map<FindingCode, number>();

  add(code: FindingCode, message: string, details: Finding['details'] = {}): void {
    if (this.#count(code, 1) <= FINDINGS_LISTED_MAX) this.listed.push({ code, message, details });
  }

  addUnlisted(code: FindingCode, count: number): void {
    if (count > 0) this.#count(code, count);
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  get unlisted(): { code: FindingCode; count: number }[] {
    const listed = (code: FindingCode): number => this.listed.filter((finding) => finding.code === code).length;
    const left = [...this.#counts].map(([code, count]) => ({ code, count: count - listed(code) }));
    return left.filter(({ count }) => count > 0);
  }

  #count(code: FindingCode, count: number): number {
    const counted = (this.#counts.get(code) ?? 0) + count;
    this.#counts.set(code, counted);
    return counted;
  }
}

/** The progress of a long piece of work. */
export interface Progress {
  stage: string;
  done: number;
  /** The amount of work, when it is known. */
  of: number | undefined;
}
