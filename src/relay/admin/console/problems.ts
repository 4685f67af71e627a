/** Problems of the console, in the form of every other problem. */
import { OPERATOR_PROBLEMS, type OperatorProblemCode } from '../../../protocol/operator-documents.ts';
import type { Reply } from '../../../http/exchange.ts';
import { otherProblemReply } from '../../../http/replies.ts';

export function consoleProblem(code: OperatorProblemCode, detail: string): Reply {
  return otherProblemReply(OPERATOR_PROBLEMS[code], code, detail);
}
