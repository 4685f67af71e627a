/** One finding of a doctor (`poste doctor`, `poste relay doctor`): a sentence, whether somebody must act, and how. */

/** `ok`: as it should be. `note`: worth knowing, nothing to do. `broken`: does not work until somebody repairs it. */
export const CHECK_STATES = ['ok', 'note', 'broken'] as const;
type CheckState = (typeof CHECK_STATES)[number];

export interface Check<Area extends string = string, Id extends string = string> {
  area: Area;
  id: Id;
  /** The paired host, agent or folder that it is about, if there may be several. */
  about: string | null;
  /** The address of the relay that it is about, where a host has several. */
  relay?: string;
  state: CheckState;
  /** May quote text of other hosts. */
  sentence: string;
  /** A shell takes it; a text in `<…>` is for the reader to fill in. */
  command: string | null;
}

export type Subject<Area extends string, Id extends string> = Pick<Check<Area, Id>, 'area' | 'id'> & { about?: string };

export function ok<Area extends string, Id extends string>(
  subject: Subject<Area, Id>,
  sentence: string,
): Check<Area, Id> {
  return checkOf(subject, 'ok', sentence, null);
}

export function note<Area extends string, Id extends string>(
  subject: Subject<Area, Id>,
  sentence: string,
  command: string | null = null,
): Check<Area, Id> {
  return checkOf(subject, 'note', sentence, command);
}

export function broken<Area extends string, Id extends string>(
  subject: Subject<Area, Id>,
  sentence: string,
  command: string | null,
): Check<Area, Id> {
  return checkOf(subject, 'broken', sentence, command);
}

function checkOf<Area extends string, Id extends string>(
  { area, id, about }: Subject<Area, Id>,
  state: CheckState,
  sentence: string,
  command: string | null,
): Check<Area, Id> {
  return { area, id, about: about ?? null, state, sentence, command };
}
