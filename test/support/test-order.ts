/** In which order test files run: those that wait for other processes first, and beside them those that compute. */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** These start processes, and wait for them. */
const WAITS = /\/test\/(?:browser|e2e|crash|postgres)\//;
/** These wait most, for what is killed to come again and for what is tried again. */
const WAITS_LONG = /\/crash\/|\/postgres\/(?:nemeses|negative-controls|cluster)\./;

export class TestOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- of the class above, not of an array
    const sorted = await super.sort(files);
    const computing = sorted.filter(({ moduleId }) => !WAITS.test(moduleId));
    const waiting = sorted.filter(({ moduleId }) => WAITS.test(moduleId));
    const longest = waiting.filter(({ moduleId }) => WAITS_LONG.test(moduleId));
    const waitingFirst = [...longest, ...waiting.filter((file) => !longest.includes(file))];
    const both: TestSpecification[] = [];
    while (waitingFirst.length > 0) both.push(...waitingFirst.splice(0, 1), ...computing.splice(0, 2));
    return [...both, ...computing];
  }
}
