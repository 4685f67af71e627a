/**
 * The daemon as a launchd agent of its user: the text of its property list, and the list's path (launchd.plist(5),
 * launchctl(1)).
 */
import { join } from 'node:path';
import { type Environment, homeFolder } from '../lib/user-folders.ts';

/** DO NOT CHANGE: installed agents are recognised by it. */
export const AGENT_LABEL = 'org.poste.daemon';

/** DO NOT CHANGE: installed agents are recognised by it. */
const FIRST_LINES = `<?xml version="1.0" encoding="UTF-8"?>
<!-- Written by poste daemon install. poste daemon uninstall takes it away. -->
`;

interface AgentParts {
  /** Absolute paths: Node.js, and the file that it is to run. */
  node: string;
  main: string;
  /** The variables that lead to the host's files, when an agent's environment would not. */
  environment: Readonly<Record<string, string>>;
  /** Where the daemon's output goes. */
  logFile: string;
}

/** Throws `RangeError` for a path that no property list can name. */
export function agentText({ node, main, environment, logFile }: AgentParts): string {
  const variables = Object.entries(environment).flatMap(([name, value]) => [`\t${key(name)}`, `\t${string(value)}`]);
  const entries: Readonly<Record<string, readonly string[]>> = {
    Label: [string(AGENT_LABEL)],
    ProgramArguments: ['<array>', ...[node, main, 'daemon'].map((word) => `\t${string(word)}`), '</array>'],
    EnvironmentVariables: ['<dict>', ...variables, '</dict>'],
    RunAtLoad: ['<true/>'],
    // It ends with 0 when it is told to, and is started again when it fails.
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
  return `${FIRST_LINES}<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
${lines.map((line) => `\t${line}\n`).join('')}</dict>
</plist>
`;
}

export function isOwnAgent(text: string): boolean {
  return text.startsWith(FIRST_LINES);
}

function plain(word: string): string {
  return word.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}

/** What an agent of ours runs. */
export function agentWords(text: string): string[] {
  const [, list = ''] = /<key>ProgramArguments<\/key>\s*<array>(.*?)<\/array>/s.exec(text) ?? [];
  return [...list.matchAll(/<string>(.*?)<\/string>/g)].map(([, word = '']) => plain(word));
}

/** The path of the user's agent. */
export function agentPath(environment: Environment): string {
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
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(text)) throw new RangeError(`a property list cannot name ${JSON.stringify(text)}`);
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
