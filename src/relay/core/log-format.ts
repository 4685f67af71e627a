/**
 * The format of tables, batches and events that this software writes, and the newest that it reads. A shared log keeps
 * its format until every node reads a newer one (shared-log/presence.ts); until then nothing of the newer one is
 * written. A new kind of event, another form of a batch or of a row of the view is a new format.
 *
 *   1  as it began
 *   2  `V2HopMade`, `SendersDated`, an `InviteSpent` behind its enrolment; enrolment rows with marks at their end
 */
export const LOG_FORMAT = 2;

/** The first format in which an event marks enrolments. */
export const MARKS_FORMAT = 2;
