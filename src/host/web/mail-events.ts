/** What the page is told as it happens: that there is something new to ask for, never what it is. */
import { STILL_HERE, eventText } from '../../page-access/live-streams.ts';
import { OWNER_ID } from '../core/rows.ts';
import type { Happening, Office } from '../office/office.ts';

/** A stream on which nothing moves for a minute is taken for a lost one. */
const STILL_HERE_EVERY_MS = 20_000;

/** Calls `send` with the text of each event from now on; answers what ends that. */
export function listenForMail(office: Office, send: (text: string) => void): () => void {
  const stop = office.listen((happening) => {
    const event = eventOf(happening);
    if (event) send(eventText(event, {}));
  });
  const timer = setInterval(() => send(STILL_HERE), STILL_HERE_EVERY_MS);
  return () => {
    stop();
    clearInterval(timer);
  };
}

function eventOf(happening: Happening): 'mail' | 'sent' | undefined {
  switch (happening.type) {
    case 'mail-stored':
    case 'mail-handled':
      return happening.agentId === OWNER_ID ? 'mail' : undefined;
    case 'sent-changed':
      return happening.agentId === OWNER_ID ? 'sent' : undefined;
    default:
      return undefined;
  }
}
