/**
 * What an event does to the rows: every projection's reducer in turn.
 *
 * The live commit, rebuild, audit and the tests all call this one function. Pure: `rows` shows the state before the
 * event; the changes are the state after it, and no key is changed twice in one answer.
 */
import type { LogEntry } from './event.ts';
import { reduceAdmissions } from './reduce-admissions.ts';
import { reduceDedup } from './reduce-dedup.ts';
import { reduceEnrolments } from './reduce-enrolments.ts';
import { reducePublications } from './reduce-publications.ts';
import { reduceQueues } from './reduce-queues.ts';
import { reduceRelay } from './reduce-relay.ts';
import { reduceUsage } from './reduce-usage.ts';
import type { RowChange, RowReader } from './rows.ts';

export function reduce({ lsn, event }: LogEntry, rows: RowReader): RowChange[] {
  return [
    ...reduceRelay(event, rows),
    ...reduceEnrolments(event, rows),
    ...reduceAdmissions(event, rows),
    ...reducePublications(event, rows),
    ...reduceQueues(event, rows),
    ...reduceDedup(event, lsn, rows),
    ...reduceUsage(event, rows),
  ];
}
