/** An address to listen at or to connect to, written `host:port`. */

export interface ListenAddress {
  /** A name, or an address without brackets. */
  host: string;
  /** 0 to 65535; 0 means any free port. */
  port: number;
}

/** Parses `host:port`, with an IPv6 host in brackets; `undefined` for any other text. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const parts = /^(?:\[(?<ipv6>[0-9A-Fa-f:.]+)\]|(?<name>[^:[\]\s]+)):(?<port>[0-9]{1,5})$/.exec(text)?.groups;
  const host = parts?.['ipv6'] ?? parts?.['name'];
  const port = Number(parts?.['port']);
  return host !== undefined && port <= 65_535 ? { host, port } : undefined;
}

/** Writes it as `host:port`, with an IPv6 host in brackets. */
export function listenAddressText({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
