/** What a doorbell says: constant text and a count, never a word of a peer. */

/** For an agent. It is typed into terminals and given to programs as one argument: one line, printable. */
export function doorbellText(unread: number): string {
  return unread === 1
    ? 'You have 1 unread message in Poste. Read it with mail_inbox.'
    : `You have ${unread} unread messages in Poste. Read them with mail_inbox.`;
}
