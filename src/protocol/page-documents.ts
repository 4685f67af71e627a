/**
 * How a browser gets into a page that a process of ours serves to people of its machine: the operator's console of a
 * relay, and the mail page of a host. Both ends of each take these shapes.
 */
import Type, { type Static } from 'typebox';
import { CLOSED } from './shapes.ts';

export const PageSession = Type.Object(
  { csrf: Type.String({ description: 'to be sent as x-poste-csrf with every action' }) },
  CLOSED,
);
export type PageSession = Static<typeof PageSession>;

export const PageTokenRequest = Type.Object({ token: Type.String({ maxLength: 100 }) });

/** Problems that only such a page knows, in the form of every other problem. */
export const PAGE_PROBLEMS = {
  NO_SESSION: { status: 401, title: 'No Session' },
  FOREIGN_HOST: { status: 403, title: 'Foreign Host' },
  FOREIGN_ORIGIN: { status: 403, title: 'Foreign Origin' },
  BAD_CSRF_TOKEN: { status: 403, title: 'Bad CSRF Token' },
  BAD_PAGE_TOKEN: { status: 403, title: 'Bad Page Token' },
  TOO_MANY_STREAMS: { status: 503, title: 'Too Many Streams' },
} as const;
export type PageProblemCode = keyof typeof PAGE_PROBLEMS;
