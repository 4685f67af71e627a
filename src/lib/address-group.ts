/** Groups addresses by client: an IPv6 client usually holds a whole /64 network. */
import { isIPv4, isIPv6 } from 'node:net';

/** An IPv4 address itself, IPv4-mapped IPv6 as IPv4, other IPv6 as its /64; `undefined` for any other text. */
export function addressGroup(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const groups = ipv6Groups(text);
  if (!groups) return undefined;
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMapped) {
    const [high = 0, low = 0] = groups.slice(6);
    return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  }
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** Says whether two texts are the same IP address in any notation. A host name never is. */
export function isSameAddress(one: string, other: string): boolean {
  const groups = wholeAddress(one);
  return groups !== undefined && groups === wholeAddress(other);
}

function wholeAddress(text: string): string | undefined {
  if (isIPv4(text)) return ipv6Groups(`::ffff:${text}`)?.join(':');
  return ipv6Groups(text)?.join(':');
}

/** The eight 16-bit groups of an IPv6 address without zone. */
function ipv6Groups(text: string): number[] | undefined {
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const dotted = text.lastIndexOf('.') > 0 ? text.slice(text.lastIndexOf(':') + 1) : undefined;
  const plain = dotted === undefined ? text : text.slice(0, -dotted.length) + dottedGroups(dotted);
  const [before = '', after] = plain.split('::');
  const left = before === '' ? [] : before.split(':');
  const right = after === undefined || after === '' ? [] : after.split(':');
  const zeros = after === undefined ? [] : Array.from({ length: 8 - left.length - right.length }, () => '0');
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16));
}

function dottedGroups(dotted: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = dotted.split('.').map(Number);
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}
