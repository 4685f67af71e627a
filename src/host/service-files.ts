/**
 * The daemon as a systemd user service (systemd.unit(5), systemd.service(5), systemd.syntax(7)) and as a launchd agent
 * of its user (launchd.plist(5), launchctl(1)): the text of each file, and its path.
 */
import { join } from 'node:path';
import { configFolder, type Environment, homeFolder } from '../lib/user-folders.ts';

export const UNIT_NAME = 'poste.service';

/** DO NOT CHANGE: installed units are recognised by it. */
const UNIT_FIRST_LINE = '# Written by poste daemon install. poste daemon uninstall takes it away.';

interface ServiceParts {
  /** Absolute paths: Node.js, and the file that it is to run. */
  node: string;
  main: string;
  /** The variables that lead to the host's files, when a service's environment would not. */
  environment: Readonly<Record<string, string>>;
}

/** How a service is read back from the text of its file, and where that lies. */
export interface ServiceFile {
  path: (environment: Environment) => string;
  /** True when poste wrote this text. */
  isOwn: (text: string) => boolean;
  /** The words of the command that such a text runs. */
  words: (text: string) => string[];
  /** The variables that such a text sets. */
  environment: (text: string) => Environment;
}

export const UNIT_FILE: ServiceFile = {
  path: unitPath,
  isOwn: isOwnUnit,
  words: unitWords,
  environment: unitEnvironment,
};

/** Throws `RangeError` for a path that no unit can name. */
export function unitText({ node, main, environment }: ServiceParts): string {
  const variables = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteWord(escapeSpecifiers(`${name}=${value}`))}\n`,
  );
  // systemd expands variables in arguments, but not in the program's own path.
  const command = [
    quoteWord(escapeSpecifiers(node)),
    quoteWord(escapeSpecifiers(main).replaceAll('$', '$$$$')),
    'daemon',
  ].join(' ');
  return `${UNIT_FIRST_LINE}
[Unit]
Description=Poste: keeps the mail of this host
# The daemon ends itself on a failed write, and a disk may be full for longer than any count of tries.
StartLimitIntervalSec=0

[Service]
Type=exec
UMask=0077
${variables.join('')}ExecStart=${command}
Restart=on-failure
RestartSec=5s
# Wrong settings (2) and a host that is not there (3) do not mend themselves. A store in use (4) is free again one day.
RestartPreventExitStatus=2 3
# What is under way gets 20 s to finish; what it wrote is then flushed.
TimeoutStopSec=40s

[Install]
WantedBy=default.target
`;
}

function isOwnUnit(text: string): boolean {
  return text.startsWith(`${UNIT_FIRST_LINE}\n`);
}

/** The words that a unit of ours runs. */
function unitWords(text: string): string[] {
  const [, line = ''] = /^ExecStart=(.*)$/m.exec(text) ?? [];
  const words = line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
  return words.map((word, at) => (at === 0 ? unquoted(word) : unquoted(word).replaceAll('$$', '$')));
}

/** The variables that a unit of ours sets. */
function unitEnvironment(text: string): Environment {
  const lines = [...text.matchAll(/^Environment=(.*)$/gm)].map(([, word = '']) => unquoted(word));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}

function unquoted(word: string): string {
  return word.replaceAll(/^"|"$/g, '').replaceAll(/\\(.)|%%/g, (_, escaped: string | undefined) => escaped ?? '%');
}

/** The path of the user's unit. */
function unitPath(environment: Environment): string {
  return join(configFolder(environment), 'systemd', 'user', UNIT_NAME);
}

/** A percent sign begins a specifier. */
function escapeSpecifiers(text: string): string {
  return nameable(text, 'a unit').replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%');
}

function quoteWord(text: string): string {
  return /^[A-Za-z0-9@+=:,./_-]+$/.test(text) ? text : `"${text}"`;
}

/** DO NOT CHANGE: installed agents are recognised by it. */
export const AGENT_LABEL = 'org.poste.daemon';

/** DO NOT CHANGE: installed agents are recognised by it. */
const AGENT_FIRST_LINES = `<?xml version="1.0" encoding="UTF-8"?>
<!-- Written by poste daemon install. poste daemon uninstall takes it away. -->
`;

const PLIST_DOCTYPE =
  '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">';

export const AGENT_FILE: ServiceFile = {
  path: agentPath,
  isOwn: isOwnAgent,
  words: agentWords,
  environment: agentEnvironment,
};

/** `logFile` takes the daemon's output. Throws `RangeError` for a path that no property list can name. */
export function agentText({ node, main, environment, logFile }: ServiceParts & { logFile: string }): string {
  const variables = Object.entries(environment).flatMap(([name, value]) => [`\t${key(name)}`, `\t${string(value)}`]);
  const entries: Readonly<Record<string, readonly string[]>> = {
    Label: [string(AGENT_LABEL)],
    ProgramArguments: ['<array>', ...[node, main, 'daemon'].map((word) => `\t${string(word)}`), '</array>'],
    EnvironmentVariables: ['<dict>', ...variables, '</dict>'],
    RunAtLoad: ['<true/>'],
    // It ends with 0 on a signal; after a failure it is started again.
    KeepAlive: ['<dict>', `\t${key('SuccessfulExit')}`, '\t<false/>', '</dict>'],
    ProcessType: [string('Background')],
    // 0077: what it writes is for its user alone.
    Umask: ['<integer>63</integer>'],
    // What is under way gets 20 s to finish; what it wrote is then flushed.
    ExitTimeOut: ['<integer>40</integer>'],
    StandardOutPath: [string(logFile)],
    StandardErrorPath: [string(logFile)],
  };
  const lines = Object.entries(entries).flatMap(([name, value]) => [key(name), value].flat());
  return `${AGENT_FIRST_LINES}${PLIST_DOCTYPE}
<plist version="1.0">
<dict>
${lines.map((line) => `\t${line}\n`).join('')}</dict>
</plist>
`;
}

function isOwnAgent(text: string): boolean {
  return text.startsWith(AGENT_FIRST_LINES);
}

function plain(word: string): string {
  return word.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}

/** The words that an agent of ours runs. */
function agentWords(text: string): string[] {
  const [, list = ''] = /<key>ProgramArguments<\/key>\s*<array>(.*?)<\/array>/s.exec(text) ?? [];
  return [...list.matchAll(/<string>(.*?)<\/string>/g)].map(([, word = '']) => plain(word));
}

/** The variables that an agent of ours sets. */
function agentEnvironment(text: string): Environment {
  const [, dict = ''] = /<key>EnvironmentVariables<\/key>\s*<dict>(.*?)<\/dict>/s.exec(text) ?? [];
  const pairs = dict.matchAll(/<key>(.*?)<\/key>\s*<string>(.*?)<\/string>/g);
  return Object.fromEntries([...pairs].map(([, name = '', value = '']) => [plain(name), plain(value)]));
}

/** The path of the user's agent. */
function agentPath(environment: Environment): string {
  return join(homeFolder(environment), 'Library', 'LaunchAgents', `${AGENT_LABEL}.plist`);
}

function key(name: string): string {
  return `<key>${escapeXml(name)}</key>`;
}

function string(text: string): string {
  return `<string>${escapeXml(text)}</string>`;
}

/** XML has no way to write most control characters. */
function escapeXml(text: string): string {
  return nameable(text, 'a property list').replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function nameable(text: string, file: string): string {
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(text)) throw new RangeError(`${file} cannot name ${JSON.stringify(text)}`);
  return text;
}
