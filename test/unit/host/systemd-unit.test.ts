import { describe, expect, test } from 'vitest';
import { UNIT_FILE, unitText } from '../../../src/host/service-files.ts';

const PARTS = { node: '/usr/bin/node', main: '/opt/poste/main.js', environment: {} };

function lineOf(text: string, key: string): string[] {
  return text.split('\n').filter((line) => line.startsWith(`${key}=`));
}

describe('the unit of the daemon', () => {
  test('runs the daemon in the foreground and begins it again after a failure, not after wrong settings', () => {
    const text = unitText(PARTS);
    expect(lineOf(text, 'ExecStart')).toEqual(['ExecStart=/usr/bin/node /opt/poste/main.js daemon']);
    expect(lineOf(text, 'Environment')).toEqual([]);
    expect(text).toContain('Restart=on-failure\nRestartSec=5s\n');
    expect(text).toContain('RestartPreventExitStatus=2 3\n');
    // The daemon itself takes up to 25 s.
    expect(lineOf(text, 'TimeoutStopSec')).toEqual(['TimeoutStopSec=40s']);
  });

  test('says where the host lies', () => {
    const text = unitText({ ...PARTS, environment: { POSTE_HOME: '/srv/poste' } });
    expect(lineOf(text, 'Environment')).toEqual(['Environment=POSTE_HOME=/srv/poste']);
  });

  test('paths with blanks, quotes, per cents and dollars stay what they are', () => {
    const odd = { node: '/o d/no%de$X', main: '/a "b"\\c/$main%n.js', environment: { POSTE_HOME: '/h $x %h' } };
    const text = unitText(odd);
    expect(lineOf(text, 'ExecStart')).toEqual([
      String.raw`ExecStart="/o d/no%%de$X" "/a \"b\"\\c/$$main%%n.js" daemon`,
    ]);
    expect(lineOf(text, 'Environment')).toEqual(['Environment="POSTE_HOME=/h $x %%h"']);
  });

  test.each(['a\nExecStartPre=/bin/evil', 'a\u0000', 'a\tb'])('no path adds a line to it: %j', (path) => {
    expect(() => unitText({ ...PARTS, environment: { POSTE_HOME: path } })).toThrow(RangeError);
    expect(() => unitText({ ...PARTS, main: path })).toThrow(RangeError);
  });

  test('is known as its own by its first line, and no other is', () => {
    expect(UNIT_FILE.isOwn(unitText(PARTS))).toBe(true);
    for (const path of ['/usr/bin/node', '/a b/100% "n\\ode" $HOME $$/x%%20']) {
      const environment = { POSTE_HOME: path, XDG_DATA_HOME: `${path}=b` };
      const text = unitText({ environment, node: path, main: path });
      expect(UNIT_FILE.words(text)).toEqual([path, path, 'daemon']);
      expect(UNIT_FILE.environment(text)).toEqual(environment);
    }
    expect(UNIT_FILE.environment(unitText(PARTS))).toEqual({});
    expect(UNIT_FILE.isOwn('[Unit]\n# Written by poste daemon install. poste daemon uninstall takes it away.\n')).toBe(
      false,
    );
  });

  test('lies in the configuration of the user', () => {
    expect(UNIT_FILE.path({ HOME: '/home/ada' })).toBe('/home/ada/.config/systemd/user/poste.service');
    expect(UNIT_FILE.path({ XDG_CONFIG_HOME: '/c' })).toBe('/c/systemd/user/poste.service');
    expect(UNIT_FILE.path({ XDG_CONFIG_HOME: 'c', HOME: '/home/ada' })).toBe(
      '/home/ada/.config/systemd/user/poste.service',
    );
  });
});
