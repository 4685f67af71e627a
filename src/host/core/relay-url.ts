/** The address of a relay as an owner writes it: HTTPS, or HTTP to this machine. A path in front of the routes is allowed. Pure. */

export const RELAY_URL_CHARACTERS_MAX = 2000;

const LOOPBACK = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])$/;

/** The address without a slash at its end, or why it is none: a sentence without a full stop. */
export function parseRelayUrl(text: string): { url: string } | { fault: string } {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return { fault: 'that is no address of a relay: it looks like https://relay.example' };
  }
  if (text.length > RELAY_URL_CHARACTERS_MAX) return { fault: 'the address of the relay is too long' };
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return { fault: 'the address of a relay has no user, no password, no query and no fragment' };
  }
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname));
  if (!isSafe) {
    return { fault: 'a relay is spoken to by https, or by http on this machine alone: give an address with https://' };
  }
  return { url: url.href.replace(/\/+$/, '') };
}
