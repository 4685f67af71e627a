/** The subject of a reply, when none is given. */
const RE = /^re:\s*/i;

/** `Re: ` and the subject, at most so many code points; one `Re: ` however often it goes to and fro. */
export function replySubject(subject: string, charactersMax: number): string {
  return [...`Re: ${subject.replace(RE, '')}`].slice(0, charactersMax).join('');
}
