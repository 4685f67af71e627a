/** `npm run demo`: what Poste does, on real input and in temporary folders. It fails if something does not hold. */
import { styleText } from 'node:util';
import { withOwnEnd } from '../test/support/test-end.ts';
import { showMail } from './demo/mail.ts';
import { showRelay } from './demo/relay.ts';
import { showTwoRelays } from './demo/two-relays.ts';

await withOwnEnd(showRelay);
await withOwnEnd(showMail);
await withOwnEnd(showTwoRelays);
console.log(styleText('green', 'Done: everything was accepted once, kept over a kill -9, and delivered exactly once.'));
