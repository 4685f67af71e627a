/** Problems of a page's doors, in the form of every other problem. */
import type { Reply } from '../exchange.ts';
import { otherProblemReply } from '../replies.ts';
import { PAGE_PROBLEMS, type PageProblemCode } from '../../protocol/page-documents.ts';

export function pageProblem(code: PageProblemCode, detail: string): Reply {
  return otherProblemReply(PAGE_PROBLEMS[code], code, detail);
}
