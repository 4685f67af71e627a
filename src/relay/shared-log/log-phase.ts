/**
 * The phase of a shared log, as the text `state` in its row says it: words that are separated by spaces. DO NOT CHANGE
 * a word: add one.
 *
 *   serving                      a node leads, or may
 *   loading <log id> <node>      the store of that node is loaded beside it, and takes its place as that log
 *   aborting <log id> <node>     that load is given up; the store of the node may be marked as moved yet
 *   moved <node>                 it goes on in the store of that node, and never here again
 *
 * While a load goes on over a log that did not serve, a line break and the text before follow: what a load that is
 * given up goes back to. Only a log that serves can be led. Another text is of a newer software.
 */
import { assertNever } from '../../lib/assert-never.ts';

export interface LoadPhase {
  type: 'loading' | 'aborting';
  /** The log that is loaded. */
  logId: string;
  node: string;
  /** The text before the load. */
  before: string;
}

export type LogPhase =
  | { type: 'serving' }
  | LoadPhase
  | { type: 'moved'; node: string }
  | { type: 'unknown'; text: string };

export const SERVING = 'serving';

export function phaseText(phase: LogPhase): string {
  switch (phase.type) {
    case 'serving':
      return SERVING;
    case 'loading':
    case 'aborting':
      return `${phase.type} ${phase.logId} ${phase.node}${phase.before === SERVING ? '' : `\n${phase.before}`}`;
    case 'moved':
      return `moved ${phase.node}`;
    case 'unknown':
      return phase.text;
    default:
      return assertNever(phase);
  }
}

export function phaseOf(text: string): LogPhase {
  if (text === SERVING) return { type: 'serving' };
  const [, load, logId = '', loader = '', before = SERVING] =
    /^(loading|aborting) ([0-9a-f-]{36}) (.+)(?:\n([^]+))?$/.exec(text) ?? [];
  if (load === 'loading' || load === 'aborting') return { type: load, logId, node: loader, before };
  const [, node] = /^moved (.+)$/.exec(text) ?? [];
  if (node !== undefined) return { type: 'moved', node };
  return { type: 'unknown', text };
}

/** Says why nobody may lead a log, with the next step; `undefined` for one that serves. */
export function whyNotServed(phase: LogPhase): string | undefined {
  switch (phase.type) {
    case 'serving':
      return undefined;
    case 'loading':
      return (
        `the log does not serve while the store of node ${phase.node} is moved into it: run ` +
        'poste relay cluster publish there again, or with --abort'
      );
    case 'aborting':
      return (
        `the log does not serve until node ${phase.node} has given a move up: run ` +
        'poste relay cluster publish --abort there again'
      );
    case 'moved':
      return (
        `the log went to the store of node ${phase.node}: start its relay without --log, or run ` +
        'poste relay cluster publish there'
      );
    case 'unknown':
      return `the log does not serve, and this software does not know why (${phase.text}): use the newer software`;
    default:
      return assertNever(phase);
  }
}
