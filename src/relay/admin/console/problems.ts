/** Problems of the console, in the form of every other problem. */
import { OPERATOR_PROBLEMS, type OperatorProblemCode } from '../../../protocol/operator-documents.ts';
import type { Reply } from '../../http/exchange.ts';

export function consoleProblem(code: OperatorProblemCode, detail: string): Reply {
  const { status, title } = OPERATOR_PROBLEMS[code];
  const document = { type: 'about:blank', title, status, detail, code };
  return { status, headers: { 'content-type': 'application/problem+json' }, body: JSON.stringify(document) };
}
