/**
 * The daemon as a systemd user service: the text of its unit, and the unit's path (systemd.unit(5),
 * systemd.service(5), systemd.syntax(7)).
 */
import { join } from 'node:path';
import { configFolder, type Environment } from '../lib/user-folders.ts';

export const UNIT_NAME = 'poste.service';

/** DO NOT CHANGE: installed units are recognised by it. */
const FIRST_LINE = '# Written by poste daemon install. poste daemon uninstall takes it away.';

interface UnitParts {
  /** Absolute paths: Node.js, and the file that it is to run. */
  node: string;
  main: string;
  /** The variables that lead to the host's files, when a service's environment would not. */
  environment: Readonly<Record<string, string>>;
}

/** Throws `RangeError` for a path that no unit can name. */
export function unitText({ node, main, environment }: UnitParts): string {
  const variables = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteWord(escapeSpecifiers(`${name}=${value}`))}\n`,
  );
  // systemd expands variables in arguments, but not in the program's own path.
  const command = [
    quoteWord(escapeSpecifiers(node)),
    quoteWord(escapeSpecifiers(main).replaceAll('$', '$$$$')),
    'daemon',
  ].join(' ');
  return `${FIRST_LINE}
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

export function isOwnUnit(text: string): boolean {
  return text.startsWith(`${FIRST_LINE}\n`);
}

/** What a unit of ours runs. */
export function unitWords(text: string): string[] {
  const [, line = ''] = /^ExecStart=(.*)$/m.exec(text) ?? [];
  const words = line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
  return words.map((word, at) => {
    const plain = word.replaceAll(/^"|"$/g, '').replaceAll(/\\(.)|%(?=%)/g, '$1');
    return at === 0 ? plain : plain.replaceAll('$$', '$');
  });
}

/** The path of the user's unit. */
export function unitPath(environment: Environment): string {
  return join(configFolder(environment), 'systemd', 'user', UNIT_NAME);
}

/** A percent sign begins a specifier. */
function escapeSpecifiers(text: string): string {
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(text)) throw new RangeError(`a unit cannot name ${JSON.stringify(text)}`);
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%');
}

function quoteWord(text: string): string {
  return /^[A-Za-z0-9@+=:,./_-]+$/.test(text) ? text : `"${text}"`;
}
