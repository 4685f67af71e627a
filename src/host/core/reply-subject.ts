/** The subject of a reply, when none is given. */
import { codeUnitAfter } from './code-points.ts';

const RE = /^re:\s*/i;

/** `Re: ` and the subject, at most so many code points; one `Re: ` however often it goes to and fro. */
export function replySubject(subject: string, charactersMax: number): string {
  const text = `Re: ${subject.replace(RE, '')}`;
  return text.slice(0, codeUnitAfter(text, charactersMax));
}
