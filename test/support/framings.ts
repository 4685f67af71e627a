/**
 * Framings that every server refuses: what a proxy and a server could read in two ways, and what is no HTTP/1.1.
 * Nothing behind such a request is looked at.
 */
import { HOP_HEADERS } from '../../src/protocol/hop.ts';

interface FramedAt {
  /** A route that takes a body, and one that takes none; neither needs a hop. */
  postTarget: string;
  getTarget: string;
  host?: string;
  /** A head that is longer is refused. */
  headBytesMax: number;
}

/** Returns what it is, and the bytes. */
export function framingsAt({ postTarget, getTarget, host = 'x', headBytesMax }: FramedAt): [string, string][] {
  const post = `POST ${postTarget} HTTP/1.1\r\nhost: ${host}\r\n`;
  const get = `GET ${getTarget} HTTP/1.1\r\nhost: ${host}\r\n`;
  return [
    ['chunked', `${post}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunked with a chunk', `${post}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
    ['chunked, in other letters', `${post}Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n`],
    ['chunked, with a chunk size without digits', `${post}transfer-encoding: chunked\r\n\r\n\r\n\r\n`],
    ['chunked, with an absurd chunk size', `${post}transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n`],
    ['chunked and sized', `${post}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n`],
    ['sized and chunked', `${post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['a chunked GET', `${get}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['another transfer encoding', `${post}transfer-encoding: gzip\r\n\r\n`],
    ['two transfer encodings', `${post}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['a transfer encoding twice', `${post}transfer-encoding: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['two lengths, the first less', `${post}content-length: 0\r\ncontent-length: 44\r\n\r\n`],
    ['two lengths, the second less', `${post}content-length: 44\r\ncontent-length: 0\r\n\r\n`],
    ['the same length twice', `${post}content-length: 2\r\ncontent-length: 2\r\n\r\n{}`],
    ['the same length twice in one line', `${post}content-length: 2, 2\r\n\r\n{}`],
    ['a length with a sign', `${post}content-length: +2\r\n\r\n{}`],
    ['a length below zero', `${post}content-length: -2\r\n\r\n{}`],
    ['a length in hexadecimal', `${post}content-length: 0x2\r\n\r\n{}`],
    ['a length with a leading zero', `${post}content-length: 02\r\n\r\n{}`],
    ['a length with a letter behind', `${post}content-length: 2a\r\n\r\n{}`],
    ['a length beyond numbers', `${post}content-length: 99999999999999999999999\r\n\r\n{}`],
    ['an empty length', `${post}content-length:\r\n\r\n`],
    ['no length', `${post}\r\n`],
    ['two hosts', `${get}host: y\r\n\r\n`],
    ['the same host twice', `${get}host: x\r\n\r\n`],
    ['another host behind a thousand headers', `${get}${'a:\r\n'.repeat(1_100)}host: y\r\n\r\n`],
    ['no host', `GET ${getTarget} HTTP/1.1\r\n\r\n`],
    ['a target with a fragment', `GET ${getTarget}#x HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['a query with a fragment', `GET ${getTarget}?a#b HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['a target beyond ASCII', `GET ${getTarget}?\xe9 HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['a target in UTF-8', `GET ${getTarget}?\xc3\xa9 HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['a target with a control character', `GET ${getTarget}?\x01 HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['a target with DEL', `GET ${getTarget}?\x7f HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['a target with NUL', `GET ${getTarget}?\x00 HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['an absolute target', `GET http://x${getTarget} HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['the target *', 'OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['CONNECT', 'CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['a folded header', `${get}a: b\r\n c\r\n\r\n`],
    ['a space before a colon', `${get}a : b\r\n\r\n`],
    ['a header without a colon', `${get}abc\r\n\r\n`],
    ['line ends of one character', `GET ${getTarget} HTTP/1.1\nhost: x\n\n`],
    ['headers that are too long', `${get}a: ${'x'.repeat(headBytesMax)}\r\n\r\n`],
    ['a target that is too long', `GET ${getTarget}?${'x'.repeat(headBytesMax)} HTTP/1.1\r\nhost: x\r\n\r\n`],
    ['another protocol', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/0.9', `GET ${getTarget}\r\n\r\n`],
    ['a NUL within a header', `${get}a: b\x00c\r\n\r\n`],
    [
      'chunked, with an extension and a trailer',
      `${post}transfer-encoding: chunked\r\n\r\n2;a="b"\r\n{}\r\n0\r\nx: y\r\n\r\n`,
    ],
    ['another version', `GET ${getTarget} HTTP/3.0\r\nhost: x\r\n\r\n`],
    ...Object.values(HOP_HEADERS).flatMap((name): [string, string][] => [
      [`${name} twice, in other letters`, `${get}${name}: a\r\n${name.toUpperCase()}: b\r\n\r\n`],
      [`the same ${name} twice`, `${get}${name}: a\r\n${name}: a\r\n\r\n`],
    ]),
    ['a line that a bare LF ends', `GET ${getTarget} HTTP/1.1\r\nhost: x\na: b\r\n\r\n`],
    ['lines that a bare CR ends', `GET ${getTarget} HTTP/1.1\rhost: x\r\r`],
    ['a vertical tab before a transfer encoding', `${post}transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n`],
    ['a tab before a transfer encoding', `${post}transfer-encoding:\tchunked\r\n\r\n0\r\n\r\n`],
    ['a length with a space in it', `${post}content-length: 2 2\r\n\r\n{}`],
    ['a tab in the request line', `GET\t${getTarget} HTTP/1.1\r\nhost: x\r\n\r\n`],
  ];
}
