/** Asks a relay what the core wants to know of its log (core/look-questions.ts). */
import type { Asking } from '../core/look-questions.ts';
import type { Answer, Question } from '../core/relay-trust.ts';
import { afterOf } from '../../protocol/seen.ts';
import { assertNever } from '../../lib/assert-never.ts';
import { isNoAnswerToThis } from './peers-at-relay.ts';
import type { RelayClient } from './relay-client.ts';
import { RelayCallFailed } from './relay-request.ts';

/** Asks one question after another. Throws `RelayCallFailed` where one is not answered. */
export async function askedAll<T>(client: RelayClient, asking: Asking<T>): Promise<T> {
  let step = asking.next();
  while (!step.done) {
    const answer = await answerTo(client, step.value);
    if (answer.type === 'none') throw new RelayCallFailed('the relay gave no answer about its log');
    step = asking.next(answer);
  }
  return step.value;
}

/** Asks the relay. What it answered otherwise than with a document is told apart by whether it would again. */
export async function answerTo(client: RelayClient, question: Question): Promise<Answer> {
  try {
    return { type: 'answer', document: await askedOf(client, question) };
  } catch (error) {
    if (!(error instanceof RelayCallFailed)) throw error;
    const { status, code } = error;
    const isConflict = question.ask === 'show' && status === 409;
    return isConflict || isNoAnswerToThis(error) ? { type: 'refused', status, code } : { type: 'none' };
  }
}

/** Throws `RelayCallFailed`. */
function askedOf(client: RelayClient, question: Question): Promise<unknown> {
  switch (question.ask) {
    case 'head':
      return client.logCheckpoint({ after: afterOf(question.knew) });
    case 'headAt':
      return client.logCheckpoint({ epoch: question.epoch, size: question.size });
    case 'consistency':
      return client.logConsistency(question.from, question.to, question.epoch);
    case 'link':
      return client.logLink(question.epoch);
    case 'proof':
      return client.logProof(question.itemId, question.target, question.size);
    case 'show': {
      const { ask: _ask, ...shown } = question;
      return client.showCheckpoint(shown);
    }
    default:
      return assertNever(question);
  }
}
