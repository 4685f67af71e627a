/**
 * Defines how a browser signs in to a page: the operator's console of a relay, or the mail page of a host. Each page is
 * for people on the machine that serves it. Page and server share these shapes.
 */
import Type, { type Static } from 'typebox';
import { closed } from './shapes.ts';

export const PageSession = closed({
  csrf: Type.String({ description: 'to be sent as x-poste-csrf with every request besides the cookie' }),
});
export type PageSession = Static<typeof PageSession>;

export const PageTokenRequest = Type.Object({ token: Type.String({ maxLength: 100 }) });

/** Problems of pages, in the same form as the problems of the protocol. */
export const PAGE_PROBLEMS = {
  NO_SESSION: { status: 401, title: 'No Session' },
  FOREIGN_HOST: { status: 403, title: 'Foreign Host' },
  FOREIGN_ORIGIN: { status: 403, title: 'Foreign Origin' },
  BAD_PAGE_TOKEN: { status: 403, title: 'Bad Page Token' },
  TOO_MANY_STREAMS: { status: 503, title: 'Too Many Streams' },
} as const;
export type PageProblemCode = keyof typeof PAGE_PROBLEMS;
