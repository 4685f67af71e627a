import { expect, test } from 'vitest';
import { AGENT_FILE, agentText } from '../../../src/host/service-files.ts';

const PARTS = { node: '/usr/bin/node', main: '/opt/poste/main.js', environment: {}, logFile: '/home/ada/daemon.log' };

type Plist = string | number | boolean | Plist[] | { [key: string]: Plist };

/** Returns what launchd would read of a property list: its elements and nothing else. Throws when they do not nest. */
function parsed(text: string): Plist {
  const body = text.replace(/^<\?xml [^>]*\?>\n<!--[^>]*-->\n<!DOCTYPE plist [^>]*>\n/, '');
  const tokens = body.match(/<[^>]+>|[^<>]+/g)?.filter((token) => token.trim() !== '') ?? [];
  const next = (wanted?: string): string => {
    const token = tokens.shift();
    if (token === undefined || (wanted !== undefined && token !== wanted)) throw new Error(`${token}, not ${wanted}`);
    return token;
  };
  const words = (end: string): string => {
    const said = tokens[0] === end ? '' : next();
    next(end);
    return said.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
  };
  const value = (): Plist => {
    const tag = next();
    if (tag === '<string>') return words('</string>');
    if (tag === '<integer>') return Number(words('</integer>'));
    if (tag === '<true/>' || tag === '<false/>') return tag === '<true/>';
    if (tag === '<array>') {
      const all: Plist[] = [];
      while (tokens[0] !== '</array>') all.push(value());
      next('</array>');
      return all;
    }
    if (tag !== '<dict>') throw new Error(`${tag} is no value`);
    const entries: [string, Plist][] = [];
    while (tokens[0] !== '</dict>') {
      next('<key>');
      entries.push([words('</key>'), value()]);
    }
    next('</dict>');
    return Object.fromEntries(entries);
  };
  next('<plist version="1.0">');
  const read = value();
  next('</plist>');
  expect(tokens).toEqual([]);
  return read;
}

test('the agent runs the daemon, starts with the session, and again after a failure but not after a stop', () => {
  expect(parsed(agentText(PARTS))).toEqual({
    Label: 'org.poste.daemon',
    ProgramArguments: ['/usr/bin/node', '/opt/poste/main.js', 'daemon'],
    EnvironmentVariables: {},
    RunAtLoad: true,
    KeepAlive: { SuccessfulExit: false },
    ProcessType: 'Background',
    Umask: 0o077,
    ExitTimeOut: 40,
    StandardOutPath: '/home/ada/daemon.log',
    StandardErrorPath: '/home/ada/daemon.log',
  });
});

test('paths with blanks, quotes, ampersands and angles stay what they are', () => {
  const odd = { node: '/o d/<no>&"de"', main: "/a 'b'&amp;.js", environment: { POSTE_HOME: '/h <x> & y' } };
  expect(parsed(agentText({ ...PARTS, ...odd }))).toMatchObject({
    ProgramArguments: ['/o d/<no>&"de"', "/a 'b'&amp;.js", 'daemon'],
    EnvironmentVariables: { POSTE_HOME: '/h <x> & y' },
  });
});

test.each(['a\n<key>', 'a\u0000', 'a\tb'])('no path with control characters gets into it: %j', (path) => {
  expect(() => agentText({ ...PARTS, environment: { POSTE_HOME: path } })).toThrow(RangeError);
  expect(() => agentText({ ...PARTS, main: path })).toThrow(RangeError);
});

test('is known as its own by its first lines, and lies with the agents of the user', () => {
  expect(AGENT_FILE.isOwn(agentText(PARTS))).toBe(true);
  expect(AGENT_FILE.isOwn('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE plist>\n')).toBe(false);
  expect(AGENT_FILE.path({ HOME: '/Users/ada' })).toBe('/Users/ada/Library/LaunchAgents/org.poste.daemon.plist');
});

test('what an agent runs is read back', () => {
  const path = '/a b/<node> & "co"&amp;/x';
  const environment = { POSTE_HOME: path, XDG_DATA_HOME: '/b' };
  const text = agentText({ node: path, main: path, environment, logFile: '/l' });
  expect(AGENT_FILE.words(text)).toEqual([path, path, 'daemon']);
  expect(AGENT_FILE.environment(text)).toEqual(environment);
});
