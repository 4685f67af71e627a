/** The process that judges mutated stores (mutation-judge.ts); another one when a store has ended it. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Audit, Judged, ToJudge } from './mutation-judge.ts';
import type { Start } from '../../../support/served-promises.ts';
import { atTestEnd } from '../../../support/test-end.ts';

const JUDGE = fileURLToPath(new URL('mutation-judge.ts', import.meta.url));

export interface Verdict {
  /** `undefined`: the process ended before. */
  audit: Audit | undefined;
  start: Start | undefined;
}

/** Call it inside a test. */
export class MutationJudges {
  #child: ChildProcess | undefined;

  constructor() {
    atTestEnd(() => void this.#child?.kill('SIGKILL'));
  }

  async judge(task: ToJudge): Promise<Verdict> {
    this.#child ??= fork(JUDGE, { execArgv: ['--import', 'tsx'], stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
    const child = this.#child;
    const verdict: Verdict = { audit: undefined, start: undefined };
    child.send(task);
    await new Promise<void>((resolve) => {
      const hear = (judged: Judged): void => {
        if (judged.type === 'audit') verdict.audit = judged.audit;
        else verdict.start = judged.start;
        if (verdict.start) finish();
      };
      const end = (): void => {
        this.#child = undefined;
        finish();
      };
      const finish = (): void => {
        child.off('message', hear).off('exit', end);
        resolve();
      };
      child.on('message', hear).on('exit', end);
    });
    return verdict;
  }
}
