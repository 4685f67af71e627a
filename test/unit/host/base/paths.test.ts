import { resolve } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { daemonSocketFault, ownPaths, stateFolder } from '../../../../src/host/base/paths.ts';
import { type Environment, homeFolder } from '../../../../src/lib/user-folders.ts';
import { ownDaemon } from '../../../../src/library/own-daemon.ts';

type User = Parameters<typeof ownPaths>[1];

const owns = (path: string, userId: number): boolean => path === '/run/user/1000' && userId === 1000;

function pathsOf(environment: Environment, user: User = { userId: 1000, owns: () => false }) {
  return ownPaths({ env: { HOME: '/home/ada', ...environment } }, user);
}

/** The system's entry of the user; without an argument there is none. */
function systemKnows(homedir?: string): void {
  const os = process.getBuiltinModule('node:os');
  const entry = os.userInfo();
  vi.spyOn(os, 'userInfo').mockImplementation((): never => {
    if (homedir === undefined) throw new Error('uv_os_get_passwd returned ENOENT');
    return { ...entry, homedir } as never;
  });
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('homeFolder', () => {
  test.each([undefined, '', 'ada', './ada'])('an environment whose HOME is %j leaves it to the system', (HOME) => {
    systemKnows('/home/bob');
    expect(homeFolder({ HOME })).toBe('/home/bob');
    expect(ownPaths({ env: { HOME } }, { userId: 1000, owns }).store).toBe('/home/bob/.local/share/poste/store');
  });

  test('an absolute HOME is taken, and the system is not asked', () => {
    systemKnows();
    expect(homeFolder({ HOME: '/home/ada' })).toBe('/home/ada');
  });

  test.each([undefined, 'relative', ''])('where the system says %j it is one sentence with a remedy', (homedir) => {
    systemKnows(homedir);
    const sentence = /^HOME is no absolute path, and the system knows no home folder of [^\n]+: set HOME to [^\n]+$/;
    expect(() => homeFolder({ HOME: '' })).toThrow(sentence);
    expect(() => ownDaemon({})).toThrow(sentence);
  });

  test('it is asked for only where it is needed', () => {
    systemKnows();
    expect(stateFolder({ env: { HOME: '' } })).toBeUndefined();
    expect(stateFolder({ env: { POSTE_HOME: '/mine', XDG_STATE_HOME: '/s' } })).toBe('/mine');
    expect(stateFolder({ env: { XDG_STATE_HOME: '/s' } })).toBe('/s/poste');
    expect(stateFolder({ env: { HOME: '/home/ada', XDG_STATE_HOME: 's' } })).toBe('/home/ada/.local/state/poste');
    expect(pathsOf({ HOME: undefined, POSTE_HOME: '/mine' }).store).toBe('/mine/store');
    const named = { XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d' };
    expect(pathsOf({ HOME: undefined, ...named })).toMatchObject({ store: '/d/poste/store' });
    expect(() => pathsOf({ HOME: undefined, XDG_DATA_HOME: '/d' })).toThrow('HOME');
    vi.spyOn(process, 'cwd').mockImplementation(() => {
      throw new Error('the working folder is gone');
    });
    expect(pathsOf({ POSTE_HOME: '/mine' }).store).toBe('/mine/store');
    expect(pathsOf({}).dataFolder).toBe('/home/ada/.local/share/poste');
  });
});

describe('ownPaths', () => {
  test('without any word of the environment everything lies below the home folder', () => {
    expect(pathsOf({})).toEqual({
      configFile: '/home/ada/.config/poste/config.toml',
      dataFolder: '/home/ada/.local/share/poste',
      store: '/home/ada/.local/share/poste/store',
      socket: '/home/ada/.local/share/poste/daemon.sock',
      logFile: '/home/ada/.local/share/poste/daemon.log',
    });
  });

  test('the XDG folders are taken', () => {
    const paths = pathsOf({ XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d', XDG_RUNTIME_DIR: '/r' });
    expect(paths).toMatchObject({
      configFile: '/c/poste/config.toml',
      store: '/d/poste/store',
      socket: '/r/poste/daemon.sock',
    });
  });

  test('a relative XDG folder is ignored, as the specification of the folders says', () => {
    expect(pathsOf({ XDG_CONFIG_HOME: 'c', XDG_DATA_HOME: '', XDG_RUNTIME_DIR: 'r' })).toEqual(pathsOf({}));
  });

  test('a process without the environment of the session finds the socket of the session', () => {
    expect(pathsOf({}, { owns, userId: 1000 }).socket).toBe('/run/user/1000/poste/daemon.sock');
    expect(pathsOf({}, { owns, userId: 1001 }).socket).toBe('/home/ada/.local/share/poste/daemon.sock');
    expect(pathsOf({}, { owns: () => true, userId: undefined }).socket).toBe(
      '/home/ada/.local/share/poste/daemon.sock',
    );
  });

  test('POSTE_HOME is before all of them, and may be relative', () => {
    const paths = pathsOf({ POSTE_HOME: 'mine', XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d', XDG_RUNTIME_DIR: '/r' });
    const mine = resolve('mine');
    expect(paths).toEqual({
      configFile: `${mine}/config.toml`,
      dataFolder: mine,
      store: `${mine}/store`,
      socket: `${mine}/daemon.sock`,
      logFile: `${mine}/daemon.log`,
    });
  });
});

test('a socket path that no system takes is told with its length and what to do', () => {
  const fits = pathsOf({ POSTE_HOME: `/${'x'.repeat(80)}` });
  expect(daemonSocketFault(fits)).toBeUndefined();
  const fault = daemonSocketFault(pathsOf({ POSTE_HOME: `/${'x'.repeat(120)}` }));
  expect(fault).toMatch(
    /has 133 bytes where this system allows 10[37]: set POSTE_HOME or XDG_RUNTIME_DIR to a shorter path/,
  );
});
